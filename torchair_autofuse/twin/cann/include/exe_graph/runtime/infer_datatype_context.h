// Look-alike of exe_graph/runtime/infer_datatype_context.h.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/ge_error_codes.h"
#include "graph/types.h"

namespace gert {

class InferDataTypeContext {
public:
    InferDataTypeContext(const std::vector<ge::DataType>& inputs, std::vector<ge::DataType>& outputs)
        : inputs_(inputs), outputs_(outputs) {}

    ge::DataType GetInputDataType(const size_t index) const {
        return index < inputs_.size() ? inputs_[index] : ge::DT_UNDEFINED;
    }
    ge::DataType GetOutputDataType(const size_t index) const {
        return index < outputs_.size() ? outputs_[index] : ge::DT_UNDEFINED;
    }
    ge::graphStatus SetOutputDataType(const size_t index, const ge::DataType type) {
        if (index >= outputs_.size()) {
            return ge::GRAPH_FAILED;
        }
        outputs_[index] = type;
        return ge::GRAPH_SUCCESS;
    }

private:
    const std::vector<ge::DataType>& inputs_;
    std::vector<ge::DataType>& outputs_;
};

}  // namespace gert
