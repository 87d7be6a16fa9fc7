/* All of Ingot's public interface. */
#ifndef INGOT_INGOT_H
#define INGOT_INGOT_H

#include "ingot/status.h"
#include "ingot/dtype.h"
#include "ingot/context.h"
#include "ingot/tensor.h"
#include "ingot/op.h"
#include "ingot/grad.h"
#include "ingot/autocast.h"
#include "ingot/optim.h"
#include "ingot/program.h"
#include "ingot/tensor_file.h"
#include "ingot/npy.h"
#include "ingot/module.h"
#include "ingot/tokenizer.h"
#include "ingot/template.h"
#include "ingot/model.h"
#include "ingot/runner.h"
#include "ingot/sampler.h"
#include "ingot/generate.h"
#include "ingot/engine.h"
#include "ingot/machine.h"
#include "ingot/serve.h"

#endif
