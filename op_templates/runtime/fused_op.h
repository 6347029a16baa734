// A fused op as GE sees it: its IR, and an object that infers shapes and executes.
#pragma once

#include <memory>

#include "device_kernel.h"
#include "graph/custom_op.h"
#include "plan.h"

// From CANN 9.2 GE may move the inputs and outputs of a loaded graph and asks for new addresses.
#ifndef TAF_ARGS_UPDATER
#if __has_include("exe_graph/runtime/update_args_context.h")
#define TAF_ARGS_UPDATER 1
#else
#define TAF_ARGS_UPDATER 0
#endif
#endif

#if TAF_ARGS_UPDATER
#include "exe_graph/runtime/update_args_context.h"
#endif

namespace taf {

// What all objects of one op type share.
struct Registered {
    Registered(Definition definition, std::string binary, bool meets)
        : plan(std::move(definition)), kernel(std::move(binary), plan.Of().entry, meets) {}

    Plan plan;
    DeviceKernel kernel;
};

class FusedOp : public ge::EagerExecuteOp,
#if TAF_ARGS_UPDATER
                public ge::ArgsUpdater,
#endif
                public ge::ShapeInferOp {
public:
    explicit FusedOp(std::shared_ptr<Registered> op) : op_(std::move(op)) {}

    ge::graphStatus Execute(gert::EagerOpExecutionContext* context) override;
    ge::graphStatus InferShape(gert::InferShapeContext* context) override;
    ge::graphStatus InferDataType(gert::InferDataTypeContext* context) override;
#if TAF_ARGS_UPDATER
    ge::graphStatus UpdateHostArgs(gert::UpdateArgsContext* context) override;
#endif

private:
    std::shared_ptr<Registered> op_;
};

// Tells GE's factories of the op. Throws Error when somebody else has its type.
void RegisterWithGe(const std::shared_ptr<Registered>& op);

}  // namespace taf
