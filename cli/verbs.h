/* The verbs: each file cmd_<verb>.c defines one row; main.c lists them. */
#ifndef INGOT_CLI_VERBS_H
#define INGOT_CLI_VERBS_H

#include "args.h"

extern const args_verb verb_run, verb_chat, verb_bench, verb_tokenize, verb_detokenize,
    verb_perplexity, verb_info, verb_serve;

#endif
