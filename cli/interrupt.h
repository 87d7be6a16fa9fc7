/* Ctrl-C as a flag that a running answer looks at. */
#ifndef INGOT_CLI_INTERRUPT_H
#define INGOT_CLI_INTERRUPT_H

#include <stdbool.h>

/* From here on Ctrl-C sets the flag instead of ending the program; with `twice_ends` a
 * second one, while the flag is set, ends it after all. */
void interrupt_catch(bool twice_ends);
void interrupt_release(void);
const volatile int *interrupt_flag(void);
void interrupt_clear(void);
/* Readable since the last Ctrl-C: for poll, which a signal just before it does not end. -1:
 * there is none. */
int interrupt_fd(void);

#endif
