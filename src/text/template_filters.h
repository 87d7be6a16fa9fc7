/* The filters of template_filters.c, for the table in template_sequences.c. */
#ifndef INGOT_TEXT_TEMPLATE_FILTERS_H
#define INGOT_TEXT_TEMPLATE_FILTERS_H

#include "text/template_int.h"

#define IG_TFILTER(name)                                                                   \
    ig_status ig__tfilter_##name(ig__trun *r, ig__tvalue *out, ig__tvalue self,            \
                                 ig__targs *args)

IG_TFILTER(string);
IG_TFILTER(upper);
IG_TFILTER(lower);
IG_TFILTER(capitalize);
IG_TFILTER(title);
IG_TFILTER(trim);
IG_TFILTER(replace);
IG_TFILTER(escape);
IG_TFILTER(indent);
IG_TFILTER(wordcount);
IG_TFILTER(tojson);
IG_TFILTER(int);
IG_TFILTER(float);
IG_TFILTER(abs);
IG_TFILTER(round);
IG_TFILTER(default);
IG_TFILTER(safe);
IG_TFILTER(length);
IG_TFILTER(attr);

#endif
