// Look-alike of register/op_def_registry.h: OP_ADD puts an op into the list that the driver reads.
#pragma once

#include "register/op_def.h"

namespace twin_cann {
int AddOp(const char* type, ops::OpDef (*make)(const char* name));
}

#define OP_ADD(opType, ...)                                          \
    [[maybe_unused]] static const int g_##opType##_added =           \
        twin_cann::AddOp(#opType, [](const char* name) -> ops::OpDef { return opType(name); })
