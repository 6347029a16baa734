// Look-alike of graph/custom_op.h as it is since CANN 9.1: what a custom op can do, each a virtual base of its class.
#pragma once

#include <functional>
#include <memory>

#include "exe_graph/runtime/eager_op_execution_context.h"
#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"

namespace gert {
class UpdateArgsContext;
}

namespace ge {

class BaseCustomOp {
public:
    virtual ~BaseCustomOp() = default;
};

class EagerExecuteOp : virtual public BaseCustomOp {
public:
    ~EagerExecuteOp() override = default;
    virtual graphStatus Execute(gert::EagerOpExecutionContext* ctx) = 0;
};

class ShapeInferOp : virtual public BaseCustomOp {
public:
    ~ShapeInferOp() override = default;
    virtual graphStatus InferShape(gert::InferShapeContext* ctx) = 0;
    virtual graphStatus InferDataType(gert::InferDataTypeContext* ctx) = 0;
};

using BaseOpCreator = std::function<std::unique_ptr<BaseCustomOp>()>;

#if __has_include("exe_graph/runtime/update_args_context.h")  // CANN 9.2: folder include_9_2
class ArgsUpdater : virtual public BaseCustomOp {
public:
    ~ArgsUpdater() override = default;
    virtual graphStatus UpdateHostArgs(gert::UpdateArgsContext* ctx) = 0;
};

using CustomOpCreateFunc = BaseCustomOp* (*)();
#endif

// The first creator of an op type stays.
class CustomOpCreatorRegister {
public:
    CustomOpCreatorRegister(const AscendString& operator_type, const BaseOpCreator& op_creator);
#if __has_include("exe_graph/runtime/update_args_context.h")
    CustomOpCreatorRegister(const AscendString& operator_type, CustomOpCreateFunc op_creator);
#endif
    ~CustomOpCreatorRegister() = default;
};

}  // namespace ge
