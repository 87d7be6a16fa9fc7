/* The table of test_gradients: what is differentiated, at which shapes and values. A line a case. */
#ifndef INGOT_TESTS_GRAD_GRADIENT_CASES_H
#define INGOT_TESTS_GRAD_GRADIENT_CASES_H

#include "ingot/ingot.h"

enum { MOST = 6, CAP = 128 };

typedef ig_tensor *function(ig_tensor *const *x);

typedef struct entry {
    const char *name;
    function *f;
    int n_in;
    int64_t dims[MOST][3]; /* of each operand; 0 ends */
    double low, high;      /* operands are spread over it */
    bool first_order;      /* its gradient is a row without gradient */
} entry;

#define ONE(name_, low_, high_)                                                            \
    {                                                                                      \
        .name = #name_, .f = f_##name_, .n_in = 1, .dims = {{3, 5}}, .low = low_,          \
        .high = high_                                                                      \
    }
#define TWO(name_, low_, high_, ...)                                                       \
    {                                                                                      \
        .name = #name_, .f = f_##name_, .n_in = 2, .dims = {__VA_ARGS__}, .low = low_,     \
        .high = high_                                                                      \
    }

/* Operators on arrays (gradient_plain.c), rows of networks (gradient_network.c). */
extern const entry gradient_plain[], gradient_network[];
extern const int n_gradient_plain, n_gradient_network;

#endif
