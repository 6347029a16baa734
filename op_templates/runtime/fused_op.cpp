#include "fused_op.h"

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "error.h"
#include "graph/operator.h"
#include "graph/operator_factory.h"

namespace taf {

namespace {

constexpr int64_t kUnknownRank = -2;  // the one dim of a shape whose rank is not known

// GE is C code to exceptions: they end here, told on stderr, which is where its own log can be sent.
template <typename Body>
ge::graphStatus Guarded(const char* what, Body body) {
    try {
        body();
        return ge::GRAPH_SUCCESS;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "torchair_autofuse: %s: %s\n", what, error.what());
        return ge::GRAPH_FAILED;
    }
}

Dims DimsOf(const gert::Shape& shape) {
    Dims dims;
    for (size_t i = 0; i < shape.GetDimNum(); ++i) {
        dims.push_back(shape.GetDim(i));
    }
    return dims;
}

void SetDims(gert::Shape& shape, const Dims& dims) {
    shape.SetDimNum(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
        shape.SetDim(i, dims[i]);
    }
}

template <typename Pointer>
Pointer NotNull(Pointer pointer, const char* what) {
    if (pointer == nullptr) {
        throw Error(std::string("GE has no ") + what);
    }
    return pointer;
}

std::vector<Dims> InputDims(const Definition& definition, const gert::EagerOpExecutionContext& context) {
    std::vector<Dims> dims;
    for (size_t i = 0; i < definition.inputs.size(); ++i) {
        const gert::Tensor* const tensor = NotNull(context.GetInputTensor(i), "input");
        if (static_cast<int>(tensor->GetDataType()) != definition.inputs[i].ge_type) {
            throw Error("input " + definition.inputs[i].name + " is of GE type " +
                        std::to_string(static_cast<int>(tensor->GetDataType())) + ", expected " +
                        std::to_string(definition.inputs[i].ge_type));
        }
        dims.push_back(DimsOf(tensor->GetOriginShape()));
    }
    return dims;
}

uint64_t Address(const void* pointer) {
    return reinterpret_cast<uint64_t>(pointer);
}

// The arguments of the kernel in its order: [meeting place], inputs, outputs, workspace, tiling key, tiling data.
std::vector<uint64_t> Arguments(Registered& op, const Launch& launch, const gert::EagerOpExecutionContext& context,
                                const void* workspace) {
    std::vector<uint64_t> args;
    if (op.kernel.Meets()) {
        args.push_back(op.kernel.MeetingPlace());
    }
    for (size_t i = 0; i < op.plan.Of().inputs.size(); ++i) {
        args.push_back(Address(NotNull(context.GetInputTensor(i), "input")->GetAddr()));
    }
    for (size_t i = 0; i < op.plan.Of().outputs.size(); ++i) {
        args.push_back(Address(NotNull(context.GetOutputTensor(i), "output")->GetAddr()));
    }
    args.push_back(Address(workspace));
    args.push_back(launch.tiling_key);
    for (const int64_t value : launch.tiling) {
        args.push_back(static_cast<uint64_t>(value));
    }
    return args;
}

// Opens the protected side of ge::Operator, which is how an IR is described.
class Described : public ge::Operator {
public:
    Described(const ge::AscendString& name, const ge::AscendString& type) : ge::Operator(name, type) {}
    using ge::Operator::InputRegister;
    using ge::Operator::OutputRegister;
};

}  // namespace

ge::graphStatus FusedOp::Execute(gert::EagerOpExecutionContext* context) {
    const Definition& definition = op_->plan.Of();
    return Guarded(definition.op_type.c_str(), [&] {
        NotNull(context, "context");
        const std::shared_ptr<const Launch> launch = op_->plan.For(InputDims(definition, *context));
        for (size_t i = 0; i < definition.outputs.size(); ++i) {
            gert::StorageShape shape;
            SetDims(shape.MutableOriginShape(), launch->outputs[i]);
            SetDims(shape.MutableStorageShape(), launch->outputs[i]);
            const gert::StorageFormat format(ge::FORMAT_ND, ge::FORMAT_ND, gert::ExpandDimsType());
            const auto type = static_cast<ge::DataType>(definition.outputs[i].ge_type);
            NotNull(context->MallocOutputTensor(i, shape, format, type), "memory for an output");
        }
        if (launch->empty) {
            return;
        }
        void* workspace = nullptr;
        if (launch->workspace_bytes > 0) {
            workspace = NotNull(context->MallocWorkSpace(launch->workspace_bytes), "memory for a workspace");
        }
        std::vector<uint64_t> args = Arguments(*op_, *launch, *context, workspace);
        Start(*context, launch->block_dim, args);
    });
}

void FusedOp::Start(gert::EagerOpExecutionContext& context, uint32_t blocks, std::vector<uint64_t>& args) {
    op_->kernel.LaunchWithHostArgs(blocks, args.data(), args.size() * sizeof(args[0]), context.GetStream());
}

#if TAF_ARGS_UPDATER
void RefreshedOp::Start(gert::EagerOpExecutionContext& context, uint32_t blocks, std::vector<uint64_t>& args) {
    const size_t bytes = args.size() * sizeof(args[0]);
    const gert::KernelArgs* const kept =
        NotNull(context.MallocReadOnlyDevArgs(args.data(), bytes), "memory for arguments");
    op_->kernel.LaunchWithDeviceArgs(blocks, kept->args_data, bytes, context.GetStream());
}

ge::graphStatus RefreshedOp::UpdateHostArgs(gert::UpdateArgsContext* context) {
    const Definition& definition = op_->plan.Of();
    return Guarded(definition.op_type.c_str(), [&] {
        NotNull(context, "context");
        const std::shared_ptr<const Launch> launch = op_->plan.For(InputDims(definition, *context));
        if (launch->empty) {
            return;
        }
        const gert::KernelArgs* const kept =
            NotNull(context->GetKernelArgs(gert::Placement::kPlacementHost, 0), "arguments");
        const size_t pointers = definition.inputs.size() + definition.outputs.size();
        const size_t first = op_->kernel.Meets() ? 1 : 0;
        if (kept->args_size != (first + pointers + 2 + launch->tiling.size()) * sizeof(uint64_t)) {
            throw Error("the arguments that GE kept are of another launch");
        }
        uint64_t* const args = static_cast<uint64_t*>(kept->args_data);
        const std::vector<uint64_t> fresh = Arguments(*op_, *launch, *context, nullptr);
        for (size_t i = first; i < first + pointers; ++i) {
            args[i] = fresh[i];
        }
    });
}
#endif

ge::graphStatus FusedOp::InferShape(gert::InferShapeContext* context) {
    const Definition& definition = op_->plan.Of();
    return Guarded(definition.op_type.c_str(), [&] {
        NotNull(context, "context");
        std::vector<std::optional<Dims>> inputs;
        for (size_t i = 0; i < definition.inputs.size(); ++i) {
            Dims dims = DimsOf(*NotNull(context->GetInputShape(i), "input shape"));
            const bool unknown = dims.size() == 1 && dims[0] == kUnknownRank;
            inputs.push_back(unknown ? std::nullopt : std::optional<Dims>(std::move(dims)));
        }
        const std::optional<std::vector<Dims>> outputs = op_->plan.Infer(inputs);
        for (size_t i = 0; i < definition.outputs.size(); ++i) {
            SetDims(*NotNull(context->GetOutputShape(i), "output shape"), outputs ? (*outputs)[i] : Dims{kUnknownRank});
        }
    });
}

ge::graphStatus FusedOp::InferDataType(gert::InferDataTypeContext* context) {
    const Definition& definition = op_->plan.Of();
    return Guarded(definition.op_type.c_str(), [&] {
        NotNull(context, "context");
        for (size_t i = 0; i < definition.outputs.size(); ++i) {
            const auto type = static_cast<ge::DataType>(definition.outputs[i].ge_type);
            if (context->SetOutputDataType(i, type) != ge::GRAPH_SUCCESS) {
                throw Error("GE has no output type");
            }
        }
    });
}

void RegisterWithGe(const std::shared_ptr<Registered>& op) {
    const char* const type = op->plan.Of().op_type.c_str();
    if (ge::OperatorFactory::IsExistOp(type)) {
        throw Error(op->plan.Of().op_type + ": GE has an op of this type from elsewhere");
    }
    const ge::OpCreatorV2 describe = [op](const ge::AscendString& name) -> ge::Operator {
        const Definition& definition = op->plan.Of();
        Described made(name, ge::AscendString(definition.op_type.c_str()));
        for (const Param& input : definition.inputs) {
            made.InputRegister(input.name.c_str());
        }
        for (const Param& output : definition.outputs) {
            made.OutputRegister(output.name.c_str());
        }
        return made;
    };
    const ge::BaseOpCreator create = [op]() -> std::unique_ptr<ge::BaseCustomOp> {
#if TAF_ARGS_UPDATER
        if (op->refreshes) {
            return std::make_unique<RefreshedOp>(op);
        }
#endif
        return std::make_unique<FusedOp>(op);
    };
    const ge::OperatorCreatorRegister ir(type, describe);
    const ge::CustomOpCreatorRegister creator(ge::AscendString(type), create);
    if (!ge::OperatorFactory::IsExistOp(type)) {
        throw Error(op->plan.Of().op_type + ": GE did not take its IR");
    }
}

}  // namespace taf
