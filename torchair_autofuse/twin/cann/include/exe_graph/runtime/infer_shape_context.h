// Look-alike of exe_graph/runtime/infer_shape_context.h.
#pragma once

#include <vector>

#include "graph/ge_error_codes.h"
#include "shape.h"

namespace gert {

class InferShapeContext {
public:
    InferShapeContext(const std::vector<Shape>& inputs, std::vector<Shape>& outputs)
        : inputs_(inputs), outputs_(outputs) {}

    const Shape* GetInputShape(const size_t index) const { return index < inputs_.size() ? &inputs_[index] : nullptr; }
    Shape* GetOutputShape(const size_t index) { return index < outputs_.size() ? &outputs_[index] : nullptr; }

private:
    const std::vector<Shape>& inputs_;
    std::vector<Shape>& outputs_;
};

}  // namespace gert
