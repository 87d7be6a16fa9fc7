/* Loops of elementwise rows over double: the definition that the float ones are compared with. */
#include "op/span.h"

#include <math.h>

#define REAL    double
#define F(name) ig__f64_##name
#define M(name) name
#include "op/span_body.inc"
