/* Loops of elementwise rows over float. */
#include "op/span.h"

#include <math.h>

#define REAL    float
#define F(name) ig__f32_##name
#define M(name) name##f
#include "op/span_body.inc"
