/* Dense products: the plan of pieces, and the walk through one.
 *
 *             piece: columns             for each span of K
 *            +---+---+---+---+             pack the block of A, unless it is held
 *   block    |   |   |   |   |             for each panel of B in the piece
 *   of rows  |   |   |   |   |               C of that panel += block * panel
 *            +---+---+---+---+
 *             panel: NR columns
 *
 * A piece packs what it needs by itself, so pieces meet nowhere. That costs little: a block of
 * A is packed once for all columns of the pieces that one thread takes in a row, and B is packed on the way, by the
 * first slice that reads it. A block is of a size that stays in the second-level cache
 * over a span, a panel of B in the first.
 *
 * Where a kernel is deep (AMX), and a block's whole rows fit the second-level cache, the loops are exchanged:
 *
 *     for each panel of the piece, for each span:  sums [rows][NR] += block * panel
 *
 * with the sums in scratch, so that C is written once, and the next panel packed between the products of this
 * one. Spans are so short that a panel and a slice of A lie in the first-level cache together. A panel that other
 * blocks of rows need too is packed by whom it meets first, into memory that all threads share: gathering it from
 * far rows of B would else take longer than its products.
 *
 * C is written row by row. Where its columns lie side by side instead, or there is but one, C^T = B^T A^T is
 * computed: the same products in the same order.
 */
#include "kernel/matmul.h"

#include "kernel/matmul_int.h"

#include <string.h>

enum {
    BLOCK_ROWS = 512,       /* most rows of a block */
    PIECES_A_THREAD = 4,    /* so that a thread that comes late is helped */
    PIECE_FLOPS = 1 << 20,  /* less is not worth handing out */
    AHEAD_SLICES = 4,       /* B's next panel is packed between so many slices of A */
    DIRECT_PANELS = 2,      /* A is packed if more panels read it */
    STAGE_COLUMNS = 512,    /* most columns of a piece that is staged */
    DEEP_BYTES = 5 << 18,   /* of a block's whole rows, to go panel by panel ... */
    DEEP_ROWS = 128,        /* ... and so many of them, or B is packed too often */
    STREAM_BYTES = 2 << 20, /* a larger C is not read again from the cache */
    ROOM = 64               /* bytes behind a packed block */
};
static const size_t HELD_BYTES = (size_t)8 << 20; /* most of A that a thread keeps packed */
static const size_t SHARED_BYTES = (size_t)32 << 20; /* most of B that all share */

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

static size_t round_64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The type that sums are made for. */
static ig__mm_type compute_type(const ig__kernels *kernels, const ig__mm_problem *p)
{
    if (p->a.type == IG__MM_F64 || p->b.type == IG__MM_F64)
        return IG__MM_F64;
    if (p->a.type == IG__MM_BF16 && p->b.type == IG__MM_BF16 &&
        kernels->matmul[IG__MM_BF16])
        return IG__MM_BF16;
    return IG__MM_F32;
}

static ig__mm_layout transposed(ig__mm_layout x)
{
    return (ig__mm_layout){x.type, x.col, x.row, {x.batch[0], x.batch[1]}};
}

/* C^T = B^T A^T. */
static ig__mm_problem swapped(const ig__mm_problem *p)
{
    ig__mm_problem q = *p;
    q.m = p->n;
    q.n = p->m;
    q.a = transposed(p->b);
    q.b = transposed(p->a);
    q.c = transposed(p->c);
    return q;
}

/* The inner batch as more rows, where A and C lie so and B is shared. */
static void join_rows(ig__mm_problem *p)
{
    const bool is_shared = p->b.batch[1] == 0;
    if (p->n_batch[1] > 1 && is_shared && p->a.batch[1] == p->m * p->a.row &&
        p->c.batch[1] == p->m * p->c.row) {
        p->m *= p->n_batch[1];
        p->n_batch[1] = 1;
    }
}

static int64_t sum_bytes(const ig__mm_plan *plan)
{
    return plan->problem.a.type == IG__MM_F64 ? 8 : 4;
}

/* Rows of A and of B^T that a matrix's threads pack between them: B for each block of rows, A
 * once a thread that takes pieces of the block. */
static int64_t packed_rows(const ig__mm_problem *p, int64_t n_blocks, int64_t n_threads)
{
    return p->m * (n_blocks < n_threads ? ceil_div(n_threads, n_blocks) : 1) +
           p->n * n_blocks;
}

static void choose_pieces(ig__mm_plan *plan, int n_threads)
{
    const ig__mm_problem *p = &plan->problem;
    const ig__mm_kernel *f = plan->kernel;
    const int64_t n_matrices = p->n_batch[0] * p->n_batch[1];
    const int64_t panels = ceil_div(p->n, f->nr), slices = ceil_div(p->m, f->mr);
    const double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    const int64_t k_bytes = round_up(p->k, f->k_step) * (int64_t)f->value_bytes;
    const int64_t deep_rows = DEEP_BYTES / (k_bytes > 0 ? k_bytes : 1);
    plan->is_deep = f->is_deep && deep_rows >= DEEP_ROWS;
    plan->n_blocks =
        ceil_div(p->m, plan->is_deep ? min_i64(deep_rows, BLOCK_ROWS) : BLOCK_ROWS);
    plan->n_columns = plan->is_staged && !plan->is_deep ? ceil_div(p->n, STAGE_COLUMNS) : 1;
    if (n_threads > 1) {
        /* rows of A that are too long to be kept are packed again for each piece */
        const bool is_long = min_i64(p->m, BLOCK_ROWS) * k_bytes > (int64_t)HELD_BYTES;
        const int64_t wanted = (int64_t)n_threads * (is_long ? 1 : PIECES_A_THREAD);
        const int64_t a_matrix = ceil_div(n_threads, n_matrices);
        for (;;) {
            const int64_t n = plan->n_blocks * plan->n_columns;
            const bool fewer_packed = packed_rows(p, 2 * plan->n_blocks, a_matrix) <=
                                      packed_rows(p, plan->n_blocks, a_matrix);
            if (n * n_matrices >= wanted || flops < 2.0 * (double)n * PIECE_FLOPS)
                break;
            if (plan->n_columns * 2 <= panels &&
                (!fewer_packed || plan->n_blocks * 2 > slices))
                plan->n_columns *= 2;
            else if (plan->n_blocks * 2 <= slices)
                plan->n_blocks *= 2;
            else
                break;
        }
    }
    /* threads that share panels begin at different ones */
    while (plan->is_deep && plan->n_blocks > 1 && plan->n_columns < n_threads &&
           plan->n_columns * 2 <= panels)
        plan->n_columns *= 2;
    plan->row_unit = f->row_step > 1 ? f->mr : 1;
    plan->block_rows =
        ceil_div(ceil_div(p->m, plan->row_unit), plan->n_blocks) * plan->row_unit;
    plan->piece_columns = ceil_div(panels, plan->n_columns) * f->nr;
    plan->n_pieces = n_matrices * plan->n_blocks * plan->n_columns;
}

static void size_scratch(ig__mm_plan *plan)
{
    const ig__mm_kernel *f = plan->kernel;
    const size_t span = (size_t)round_up(plan->span, f->k_step);
    const size_t rows = (size_t)round_up(plan->block_rows, f->row_step);
    const size_t span_bytes = round_64(rows * span * f->value_bytes + ROOM);
    plan->panel_bytes = round_64(span * (size_t)f->nr * f->value_bytes + ROOM);
    plan->stage_bytes = 0;
    if (plan->is_deep)
        plan->stage_bytes = round_64((size_t)(plan->block_rows * f->nr * sum_bytes(plan)));
    else if (plan->is_staged)
        plan->stage_bytes = round_64((size_t)(plan->block_rows * plan->piece_columns) *
                                     (size_t)sum_bytes(plan));
    plan->is_held = !plan->is_direct && span_bytes * (size_t)plan->n_spans <= HELD_BYTES;
    size_t a_bytes = plan->is_direct ? 0 : span_bytes;
    if (plan->is_held)
        a_bytes *= (size_t)plan->n_spans;
    plan->scratch_bytes = 2 * plan->panel_bytes + plan->stage_bytes + a_bytes;
    const ig__mm_problem *p = &plan->problem;
    const size_t n_panels = (size_t)(ceil_div(p->n, f->nr) * plan->n_spans);
    if (plan->is_deep && plan->n_blocks > 1 && p->k > 0 &&
        p->n_batch[0] * p->n_batch[1] == 1 &&
        n_panels <= SHARED_BYTES / plan->panel_bytes) {
        plan->shared_bytes = n_panels * plan->panel_bytes;
        plan->n_states = (int64_t)(sizeof(int64_t) + n_panels);
    }
}

ig__mm_plan ig__mm_plan_make(const ig__kernels *kernels, const ig__mm_problem *problem,
                             int n_threads)
{
    ig__mm_plan plan = {.problem = *problem};
    ig__mm_problem *p = &plan.problem;
    const ig__mm_type type = compute_type(kernels, p);
    const ig__mm_type sum_type = type == IG__MM_F64 ? IG__MM_F64 : IG__MM_F32;
    if (p->alpha == 0.0)
        p->k = 0;
    if (p->m <= 0 || p->n <= 0 || p->n_batch[0] <= 0 || p->n_batch[1] <= 0)
        return plan;
    if (p->c.row == 1 && (p->c.col != 1 || p->n == 1)) {
        *p = swapped(p);
        plan.is_swapped = true;
    }
    if (!plan.is_swapped)
        join_rows(p);
    plan.kernel = kernels->matmul[type];
    plan.n_spans = p->k > 0 ? ceil_div(p->k, plan.kernel->span) : 1;
    plan.span = round_up(ceil_div(p->k, plan.n_spans), plan.kernel->k_step);
    plan.is_staged = p->c.type != sum_type || (p->c.col != 1 && p->n > 1);
    const bool reads = plan.kernel->reads_source;
    plan.is_fetched = p->b.type == type && (p->b.col == 1 || p->n == 1);
    plan.is_source = reads && plan.is_fetched;
    /* a step of 0 along k (A expanded) is how panels are told that A is packed */
    plan.is_direct = reads && p->a.type == type && p->a.col != 0 &&
                     p->n <= DIRECT_PANELS * plan.kernel->nr;
    choose_pieces(&plan, n_threads);
    size_scratch(&plan);
    return plan;
}

/* ---- the walk -------------------------------------------------------------------------- */

static size_t type_bytes(ig__mm_type type)
{
    return type == IG__MM_F64 ? 8 : type == IG__MM_F32 ? 4 : 2;
}

static const void *at(const void *p, const ig__mm_layout *x, int64_t i, int64_t j)
{
    return (const char *)p + (i * x->row + j * x->col) * (int64_t)type_bytes(x->type);
}

/* One piece: rows [row, row + m) and columns [column, column + n) of one matrix. */
typedef struct piece {
    const ig__mm_plan *plan;
    const void *a, *b, *c0; /* of the matrix */
    void *c;
    const char *bias;
    char *shared;          /* panels that all threads share; NULL: there are none */
    unsigned char *states; /* of each of them */
    char *packed_b, *packed_a;
    void *stage; /* [m][n] f32 or f64 */
    int64_t row, column, m, n;
    bool is_packed; /* packed_a need not be filled */
} piece;

/* Packed A of a span that begins at k; all spans lie one after another where they are held. */
static char *packed_span(const piece *w, int64_t i_span)
{
    const ig__mm_plan *plan = w->plan;
    const size_t rows = (size_t)round_up(w->m, plan->kernel->row_step);
    const size_t bytes = rows * (size_t)plan->span * plan->kernel->value_bytes;
    return w->packed_a + (plan->is_held ? (size_t)i_span * bytes : 0);
}

static void pack_span(const piece *w, int64_t i_span)
{
    const ig__mm_plan *plan = w->plan;
    const ig__mm_layout *a = &plan->problem.a;
    const int64_t k = i_span * plan->span;
    plan->kernel->pack_a[a->type](packed_span(w, i_span), at(w->a, a, w->row, k), a->row,
                                  a->col, w->m, min_i64(plan->span, plan->problem.k - k));
}

static void *result_at(const piece *w, int64_t column)
{
    const ig__mm_plan *plan = w->plan;
    const int64_t bytes = sum_bytes(plan);
    if (plan->is_staged)
        return (char *)w->stage + (column - w->column) * bytes;
    return (char *)w->c + (w->row * plan->problem.c.row + column) * bytes;
}

/* What span i_span does to C: the first one sets it, the last one adds the bias. */
static void set_epilogue(ig__mm_panel *x, const piece *w, int64_t i_span, int64_t column)
{
    const ig__mm_plan *plan = w->plan;
    const ig__mm_problem *p = &plan->problem;
    x->alpha = p->alpha;
    x->beta = i_span > 0 ? 1.0 : plan->is_staged ? 0.0 : p->beta;
    x->c = result_at(w, column);
    x->c0 = x->c;
    x->c_row = x->c0_row = plan->is_staged ? w->n : p->c.row;
    if (i_span == 0 && !plan->is_staged)
        x->c0 = at(w->c0, &p->c, w->row, column);
    x->bias_n = x->bias_m = NULL;
    if (i_span + 1 < plan->n_spans || !w->bias)
        return;
    if (plan->is_swapped)
        x->bias_m = w->bias + w->row * sum_bytes(plan);
    else
        x->bias_n = w->bias + column * sum_bytes(plan);
}

/* Span i_span of panels [begin, end) of the piece, by their first columns. */
static void run_span(const piece *w, int64_t i_span, int64_t begin, int64_t end)
{
    const ig__mm_plan *plan = w->plan;
    const ig__mm_problem *p = &plan->problem;
    const int64_t k = i_span * plan->span, nr = plan->kernel->nr;
    ig__mm_panel x = {
        .packed = w->packed_b,
        .m = w->m,
        .k = min_i64(plan->span, p->k - k),
        .b_row = p->b.row,
    };
    if (plan->is_direct) {
        x.a = at(w->a, &p->a, w->row, k);
        x.a_row = p->a.row;
        x.a_k = p->a.col;
    } else {
        x.a = packed_span(w, i_span);
    }
    const bool is_ahead =
        plan->is_source && ig__mm_slices(w->m, plan->kernel->mr) >= AHEAD_SLICES;
    char *packed_next = w->packed_b + plan->panel_bytes;
    bool is_packed = false;
    for (int64_t column = begin; column < end; column += nr) {
        const void *b = at(w->b, &p->b, k, column);
        const bool is_last = column + nr >= end;
        x.n = min_i64(nr, end - column);
        set_epilogue(&x, w, i_span, column);
        x.b_next = plan->is_fetched && !is_last ? at(b, &p->b, 0, nr) : NULL;
        x.n_next = min_i64(nr, end - column - nr);
        if (plan->is_source) {
            x.b = is_packed ? NULL : b;
            x.packed_next = is_ahead && !is_last ? packed_next : NULL;
        } else {
            plan->kernel->pack_b[p->b.type](x.packed, b, p->b.col, p->b.row, x.n, x.k);
        }
        plan->kernel->panel(&x);
        is_packed = x.packed_next != NULL;
        if (is_packed) {
            packed_next = x.packed;
            x.packed = x.packed_next;
        }
    }
}

static double read_number(const void *p, ig__mm_type type)
{
    return type == IG__MM_F64 ? *(const double *)p : (double)ig__mm_read(p, 0, type);
}

static void write_number(void *p, ig__mm_type type, double x)
{
    switch (type) {
    case IG__MM_F64:
        *(double *)p = x;
        return;
    case IG__MM_F32:
        *(float *)p = (float)x;
        return;
    case IG__MM_BF16:
        *(uint16_t *)p = ig__f32_to_bf16((float)x);
        return;
    default:
        *(uint16_t *)p = ig__f32_to_f16((float)x);
        return;
    }
}

/* Columns [column, column + n) of row i of C from sums that were staged. */
static void store_row(const piece *w, const char *from, int64_t i, int64_t column,
                      int64_t n)
{
    const ig__mm_problem *p = &w->plan->problem;
    const int64_t bytes = sum_bytes(w->plan), c_bytes = (int64_t)type_bytes(p->c.type);
    const ig__mm_type sum_type = bytes == 8 ? IG__MM_F64 : IG__MM_F32;
    const int64_t first = (w->row + i) * p->c.row + column * p->c.col;
    ig__mm_narrow *narrow = w->plan->kernel->narrow[p->c.type];
    if (narrow && p->c.col == 1 && p->beta == 0.0) {
        narrow((char *)w->c + first * c_bytes, (const float *)(const void *)from, n);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        const int64_t offset = (first + j * p->c.col) * c_bytes;
        double x = read_number(from + j * bytes, sum_type);
        if (p->beta != 0.0)
            x += p->beta * read_number((const char *)w->c0 + offset, p->c.type);
        write_number((char *)w->c + offset, p->c.type, x);
    }
}

/* Span by span, all panels of each. */
static void run_wide(const piece *w)
{
    const ig__mm_plan *plan = w->plan;
    for (int64_t s = 0; s < plan->n_spans; s++) {
        if (!w->is_packed)
            pack_span(w, s);
        run_span(w, s, w->column, w->column + w->n);
    }
    for (int64_t i = 0; plan->is_staged && i < w->m; i++)
        store_row(w, (const char *)w->stage + i * w->n * sum_bytes(plan), i, w->column,
                  w->n);
}

/* Step t of a deep walk: span t % n_spans of panel t / n_spans. */
typedef struct deep_step {
    int64_t i_span, column, n, k;
    const void *b;
} deep_step;

static deep_step deep_at(const piece *w, int64_t t)
{
    const ig__mm_plan *plan = w->plan;
    const int64_t nr = plan->kernel->nr, i_span = t % plan->n_spans;
    const int64_t column = w->column + t / plan->n_spans * nr, k = i_span * plan->span;
    return (deep_step){.i_span = i_span,
                       .column = column,
                       .n = min_i64(nr, w->column + w->n - column),
                       .k = min_i64(plan->span, plan->problem.k - k),
                       .b = at(w->b, &plan->problem.b, k, column)};
}

/* Can the kernel put rows of C there itself? */
static bool is_direct_out(const ig__mm_plan *plan)
{
    const ig__mm_problem *p = &plan->problem;
    return (p->c.col == 1 || p->n == 1) &&
           (!plan->is_staged || (plan->kernel->narrow[p->c.type] && p->beta == 0.0));
}

/* Sums begin with C0, stay in scratch [m][NR], and the last span puts them where they belong. */
static void set_deep_epilogue(ig__mm_panel *x, const piece *w, const deep_step *now)
{
    const ig__mm_plan *plan = w->plan;
    const int64_t nr = plan->kernel->nr;
    const bool is_last = now->i_span + 1 == plan->n_spans;
    set_epilogue(x, w, now->i_span, now->column);
    if (now->i_span > 0) {
        x->c0 = w->stage;
        x->c0_row = nr;
    }
    x->c = w->stage;
    x->c_row = nr;
    if (!is_last || !is_direct_out(plan))
        return;
    const ig__mm_problem *p = &plan->problem;
    x->out =
        (char *)w->c + (w->row * p->c.row + now->column) * (int64_t)type_bytes(p->c.type);
    x->out_row = p->c.row;
    x->out_type = p->c.type;
    x->streams = (double)p->m * (double)p->n * (double)type_bytes(p->c.type) > STREAM_BYTES;
}

/* ---- panels that all threads share -------------------------------------------------------- */

enum { MISSING, IN_WORK, THERE }; /* states of a shared panel */

/* Where a step's panel is, or is to be packed. */
typedef struct panel_place {
    char *at;
    unsigned char *state; /* of a shared one that this thread packs; else NULL */
    bool is_packed;
} panel_place;

/* A panel that another thread is just packing is not waited for: it may not have a core. */
static panel_place place_of(const piece *w, const deep_step *step, int64_t t)
{
    const ig__mm_plan *plan = w->plan;
    const int64_t i = step->column / plan->kernel->nr * plan->n_spans + step->i_span;
    panel_place own = {.at = w->packed_b + t % 2 * (int64_t)plan->panel_bytes};
    if (!w->shared)
        return own;
    char *shared = w->shared + i * (int64_t)plan->panel_bytes;
    unsigned char *state = w->states + i, expected = MISSING;
    /* acquire pairs with the release of `publish`: the panel's bytes are seen with its state */
    if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == THERE)
        return (panel_place){.at = shared, .is_packed = true};
    if (__atomic_compare_exchange_n(state, &expected, IN_WORK, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
        return (panel_place){.at = shared, .state = state};
    return expected == THERE ? (panel_place){.at = shared, .is_packed = true} : own;
}

static void publish(panel_place *place)
{
    place->is_packed = true;
    if (place->state)
        __atomic_store_n(place->state, THERE, __ATOMIC_RELEASE);
}

/* What is done about the panel of step t + 1 during step t; true: it will be packed. */
static bool prepare_next(ig__mm_panel *x, const piece *w, const panel_place *place,
                         int64_t t, int64_t n_steps)
{
    const ig__mm_problem *p = &w->plan->problem;
    const ig__mm_kernel *f = w->plan->kernel;
    const deep_step next = deep_at(w, t + 1),
                    after = deep_at(w, t + 2 < n_steps ? t + 2 : t + 1);
    x->k_next = next.k;
    if (place->is_packed) {
        x->packed_ahead = place->at;
        return false;
    }
    if ((p->b.col != 1 && p->b.row != 1) || p->k == 0 || next.n != f->nr ||
        next.k % f->k_step != 0)
        return false;
    x->b_next = next.b;
    x->packed_next = place->at;
    x->b_after = after.n == f->nr && after.k == next.k ? after.b : NULL;
    return true;
}

static void run_deep(const piece *w)
{
    const ig__mm_plan *plan = w->plan;
    const ig__mm_problem *p = &plan->problem;
    const ig__mm_kernel *f = plan->kernel;
    const int64_t n_steps = ceil_div(w->n, f->nr) * plan->n_spans;
    for (int64_t s = 0; s < plan->n_spans && !w->is_packed; s++)
        pack_span(w, s);
    deep_step now = deep_at(w, 0);
    panel_place place = place_of(w, &now, 0), next_place = place;
    for (int64_t t = 0; t < n_steps; t++, place = next_place) {
        now = deep_at(w, t);
        ig__mm_panel x = {.a = packed_span(w, now.i_span),
                          .packed = place.at,
                          .m = w->m,
                          .n = now.n,
                          .k = now.k,
                          .b_row = p->b.row,
                          .b_col = p->b.col};
        set_deep_epilogue(&x, w, &now);
        if (!place.is_packed) {
            f->pack_b[p->b.type](place.at, now.b, p->b.col, p->b.row, now.n, now.k);
            publish(&place);
        }
        bool is_packing = false;
        if (t + 1 < n_steps) {
            const deep_step next = deep_at(w, t + 1);
            next_place = place_of(w, &next, t + 1);
            is_packing = prepare_next(&x, w, &next_place, t, n_steps);
        }
        f->panel(&x);
        if (is_packing)
            publish(&next_place);
        if (x.out || now.i_span + 1 < plan->n_spans)
            continue;
        for (int64_t i = 0; i < w->m; i++)
            store_row(w, (const char *)w->stage + i * f->nr * sum_bytes(plan), i,
                      now.column, now.n);
    }
}

/* A piece is done; behind the last one nobody looks at the shared panels any more. */
static void count_done(const ig__mm_plan *plan, unsigned char *states)
{
    int64_t *n_done = (int64_t *)(void *)states;
    /* acq_rel: what all threads did to the states comes before they are cleared */
    if (__atomic_add_fetch(n_done, 1, __ATOMIC_ACQ_REL) == plan->n_pieces)
        memset(states, 0, (size_t)plan->n_states);
}

static const void *matrix_at(const void *p, const ig__mm_layout *x, int64_t i, int64_t j)
{
    return (const char *)p +
           (i * x->batch[0] + j * x->batch[1]) * (int64_t)type_bytes(x->type);
}

/* The first row of a block of rows. */
static int64_t row_of(const ig__mm_plan *plan, int64_t block)
{
    const int64_t units = ceil_div(plan->problem.m, plan->row_unit);
    return min_i64(units * block / plan->n_blocks * plan->row_unit, plan->problem.m);
}

static void run_piece(ig__mm_walk *walk, int64_t i_piece)
{
    const ig__mm_plan *plan = walk->plan;
    const ig__mm_problem *p = &plan->problem;
    const ig__mm_data *d = walk->data;
    const int64_t i_block = i_piece / plan->n_columns;
    /* blocks of rows begin at different columns, so that threads pack different panels */
    const int64_t i_column =
        (i_piece + i_block * plan->n_columns / plan->n_blocks) % plan->n_columns;
    const int64_t matrix = i_block / plan->n_blocks, block = i_block % plan->n_blocks;
    const int64_t outer = matrix / p->n_batch[1], inner = matrix % p->n_batch[1];
    const int64_t panels = ceil_div(p->n, plan->kernel->nr);
    const int64_t c_offset =
        (outer * p->c.batch[0] + inner * p->c.batch[1]) * (int64_t)type_bytes(p->c.type);
    piece w = {
        .plan = plan,
        .a = matrix_at(plan->is_swapped ? d->b : d->a, &p->a, outer, inner),
        .b = matrix_at(plan->is_swapped ? d->a : d->b, &p->b, outer, inner),
        .c = (char *)d->c + c_offset,
        .bias = d->bias,
        .shared = plan->n_states > 0 ? d->shared : NULL,
        .packed_b = walk->scratch,
        .stage = walk->scratch + 2 * plan->panel_bytes,
        .packed_a = walk->scratch + 2 * plan->panel_bytes + plan->stage_bytes,
        .row = row_of(plan, block),
        .column = panels * i_column / plan->n_columns * plan->kernel->nr,
    };
    w.c0 = d->c0 ? (const char *)d->c0 + c_offset : w.c;
    w.m = row_of(plan, block + 1) - w.row;
    w.n = min_i64(panels * (i_column + 1) / plan->n_columns * plan->kernel->nr, p->n) -
          w.column;
    w.is_packed = plan->is_direct || (plan->is_held && walk->held == i_block);
    if (w.shared)
        w.states = d->states + sizeof(int64_t);
    if (plan->is_deep)
        run_deep(&w);
    else
        run_wide(&w);
    walk->held = i_block;
    if (w.shared)
        count_done(plan, d->states);
}

void ig__mm_walk_begin(ig__mm_walk *walk, const ig__mm_plan *plan, const ig__mm_data *data,
                       void *scratch)
{
    *walk = (ig__mm_walk){plan, data, scratch, -1};
}

void ig__mm_walk_run(ig__mm_walk *walk, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        run_piece(walk, i);
}
