// A fused op as GE sees it: its IR, and an object that infers shapes and executes.
#pragma once

#include <memory>
#include <vector>

#include "device_kernel.h"
#include "graph/custom_op.h"
#include "plan.h"

// From CANN 9.2 GE may move the inputs and outputs of a loaded static graph, and asks for new addresses.
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
    Registered(Definition definition, std::string binary, bool meets, bool refreshes)
        : plan(std::move(definition)), kernel(std::move(binary), plan.Of().entry, meets), refreshes(refreshes) {}

    Plan plan;
    DeviceKernel kernel;
    const bool refreshes;  // it is a RefreshedOp
};

// Its arguments go with the launch: for all graphs.
class FusedOp : public ge::EagerExecuteOp, public ge::ShapeInferOp {
public:
    explicit FusedOp(std::shared_ptr<Registered> op) : op_(std::move(op)) {}

    ge::graphStatus Execute(gert::EagerOpExecutionContext* context) override;
    ge::graphStatus InferShape(gert::InferShapeContext* context) override;
    ge::graphStatus InferDataType(gert::InferDataTypeContext* context) override;

protected:
    virtual void Start(gert::EagerOpExecutionContext& context, uint32_t blocks, std::vector<uint64_t>& args);

    const std::shared_ptr<Registered> op_;
};

#if TAF_ARGS_UPDATER
// Its arguments lie in memory that GE keeps for a loaded graph and refreshes. For static graphs only: in a dynamic one
// GE writes them, without waiting for the stream, to memory that a kernel in flight may still use.
class RefreshedOp : public FusedOp, public ge::ArgsUpdater {
public:
    using FusedOp::FusedOp;

    ge::graphStatus UpdateHostArgs(gert::UpdateArgsContext* context) override;

protected:
    void Start(gert::EagerOpExecutionContext& context, uint32_t blocks, std::vector<uint64_t>& args) override;
};
#endif

// Tells GE's factories of the op. Throws Error when somebody else has its type.
void RegisterWithGe(const std::shared_ptr<Registered>& op);

}  // namespace taf
