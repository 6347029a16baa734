// The CPU twin of Ascend C: compiled instead of CANN's kernel_operator.h. What is not declared here is not modelled.
#ifndef TWIN_KERNEL_OPERATOR_H
#define TWIN_KERNEL_OPERATOR_H

#ifndef __NPU_ARCH__
#error "define __NPU_ARCH__ (2201, 3510 or 2002)"
#endif
#if __NPU_ARCH__ != 2201 && __NPU_ARCH__ != 3510 && __NPU_ARCH__ != 2002
#error "twin: __NPU_ARCH__ must be 2201, 3510 or 2002"
#endif

#include "twin/types.h"
#include "twin/enums.h"
#include "twin/tensor.h"
#include "twin/pipe.h"
#include "twin/sync.h"
#include "twin/entry.h"
#include "twin/copy.h"
#include "twin/vector.h"
#include "twin/cast.h"
#include "twin/compare.h"
#include "twin/move.h"
#include "twin/reduce.h"
#include "twin/highlevel.h"

#endif  // TWIN_KERNEL_OPERATOR_H
