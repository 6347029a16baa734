// A fused op as its definition file (proto/fused_op.proto) describes it. Free of CANN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "expression.h"

namespace taf {

struct Param {
    std::string name;
    int ge_type = 0;    // its number in ge::DataType
    size_t itemsize = 0;  // bytes
    std::vector<SizeExpression> dims;
};

// A size that is read from an input: its dim, floor-divided.
struct Symbol {
    std::string name;
    size_t input = 0;
    size_t dim = 0;
    int64_t divisor = 1;
};

struct Schedule {
    int64_t npu_arch = 0;
    int64_t vector_cores = 0;
    int64_t ub_bytes = 0;
    int64_t ub_limit_bytes = 0;
    // Values: the symbols, core_num, ub_bytes, then one per step.
    std::vector<TilingExpression> steps;
    std::vector<size_t> fields;  // places of the values that are tiling data
    TilingExpression block_dim;
    TilingExpression tiling_key;
    TilingExpression workspace_bytes;
    TilingExpression ub_used;
};

struct Definition {
    std::string op_type;
    std::string entry;  // the kernel function
    std::vector<Param> inputs;
    std::vector<Param> outputs;
    std::vector<Symbol> symbols;
    Schedule schedule;
    std::string identity;  // equal for two files that say the same of all that is used here

    // The bytes of a definition file, with its schedule for `soc`. Throws Error that says what is wrong.
    static Definition Read(std::string_view bytes, std::string_view soc);
};

}  // namespace taf
