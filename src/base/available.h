/* Memory that this process may still take.
 */
#ifndef INGOT_BASE_AVAILABLE_H
#define INGOT_BASE_AVAILABLE_H

#include <stddef.h>

/* What the system says is available, or what the process's control groups leave of their limits
 * if that is less. SIZE_MAX: the system does not say. */
size_t ig__memory_available(void);

#endif
