/* Passes over captured programs, for the files of this folder.
 *
 * A program is a list of steps over numbered storages (src/exec/program.h). A step reads and writes parts of
 * storages: a pass follows bytes, not values. What is not planned (p->storages[i].s is there) is
 * seen by others: it may be read and written before and after every run.
 *
 * A pass changes the list in place and leaves a program that does the same to all that is seen. Steps that may
 * fail on what they read (op->explain) stay.
 */
#ifndef INGOT_COMPILE_PROGRAM_PASS_H
#define INGOT_COMPILE_PROGRAM_PASS_H

#include "exec/program.h"
#include "op/chain.h"

/* How a storage is touched by the steps. */
typedef struct ig__touch {
    int32_t n_uses, n_writes, first, last;
} ig__touch;
typedef struct ig__program_pass {
    const char *name, *what;
    bool (*run)(ig_program *p); /* false: no memory; the program is as good as before */
} ig__program_pass;

/* In the order in which they run; the last has no name. */
extern const ig__program_pass ig__program_passes[];

bool ig__program_dead(ig_program *p);
bool ig__program_once(ig_program *p);
bool ig__program_same(ig_program *p);
bool ig__program_fuse(ig_program *p);
bool ig__program_tail(ig_program *p);
bool ig__program_reuse(ig_program *p);

/* Elementwise steps, in their order, as one chain; NULL: no memory. */
ig__program_step *ig__program_weld(ig_program *p, const ig__touch *touch,
                                   ig__program_step **members, int n);
/* Drop the steps that are NULL. */
void ig__program_close_gaps(ig_program *p);

/* Of all storages; the caller frees it with the program's allocator. NULL: no memory. */
ig__touch *ig__program_touch(const ig_program *p);

/* Is use i of the step all of its storage, in order? */
bool ig__program_whole(const ig_program *p, const ig__program_step *step, int i);

#endif
