// The ops that OP_ADD has listed in this library.
#pragma once

#include <vector>

#include "register/op_def.h"

namespace twin_cann {

struct OpEntry {
    const char* type;
    ops::OpDef (*make)(const char* name);
};

std::vector<OpEntry>& Ops();

}  // namespace twin_cann
