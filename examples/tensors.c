/* Tensors from NumPy's file and back:
 *     cc tensors.c -o tensors $(pkg-config --cflags --libs ingot)
 *     python3 -c "import numpy; numpy.save('x.npy', numpy.arange(15.0).reshape(3, 5))"
 *     ./tensors x.npy y.npy
 * A call that fails gives NULL, and so do all calls behind it: one look at the end is enough. */
#include <ingot/ingot.h>
#include <stdio.h>

static void print(const char *what, const ig_tensor *x)
{
    char text[4096];
    ig_tensor_text(x, text, sizeof text);
    printf("%s = %s\n", what, text);
}

int main(int argc, char **argv)
{
    ig_error err = {.message = "usage: tensors MATRIX.npy RESULT.npy"};
    ig_context *ig;
    if (argc != 3)
        return fprintf(stderr, "%s\n", err.message), 2;
    if (ig_context_create(&ig, NULL, &err))
        return fprintf(stderr, "%s\n", err.message), 1;
    ig_tensor *x = ig_npy_load(ig, argv[1], &err);
    if (!x)
        return fprintf(stderr, "%s\n", err.message), 1;
    print("x", x);

    /* views: no bytes move */
    const int64_t n = ig_tensor_dim(x, 0);
    print("x[n-1]", ig_select(x, 0, n - 1));
    print("x[:, ::2]", ig_slice(x, 1, 0, ig_tensor_dim(x, 1), 2));
    print("x.T", ig_transpose(x, 0, 1));

    ig_tensor *gram = ig_einsum("ij,kj->ik", (ig_tensor *[]){x, x}, 2); /* x x^T */
    print("x x^T", gram);
    ig_tensor *centred = ig_sub(x, ig_mean(x, 1, (int[]){0}, true));
    print("x - mean of its rows", centred);
    if (ig_context_status(ig))
        return fprintf(stderr, "%s\n", ig_context_message(ig)), 1;
    if (ig_npy_save(argv[2], centred, &err))
        return fprintf(stderr, "%s\n", err.message), 1;

    /* what a failure says; then the context is as new */
    ig_exp(ig_matmul(x, ig_zeros(ig, ig_tensor_dtype(x), IG_SHAPE(7, 2))));
    printf("%s\n", ig_context_message(ig));
    ig_context_clear(ig);
    ig_context_destroy(ig);
    return 0;
}
