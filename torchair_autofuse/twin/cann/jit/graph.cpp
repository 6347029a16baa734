// libgraph of the twin: GE's factories, the context of a call, and a driver that calls ops as GE does (C functions
// twin_ge_*, for ctypes).
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "eager_call.h"
#include "graph/custom_op.h"
#include "graph/operator_factory.h"

#if __has_include("exe_graph/runtime/update_args_context.h")
#include "exe_graph/runtime/update_args_context.h"
#endif

namespace {

struct Factories {
    std::mutex lock;
    std::map<std::string, ge::OpCreatorV2> irs;
    std::map<std::string, ge::BaseOpCreator> creators;
    std::map<std::string, std::unique_ptr<ge::BaseCustomOp>> ops;  // one object per op type
};

Factories& All() {
    static Factories factories;
    return factories;
}

ge::BaseCustomOp* Op(const char* type) {
    const std::lock_guard<std::mutex> hold(All().lock);
    auto& op = All().ops[type];
    if (op == nullptr) {
        const auto creator = All().creators.find(type);
        if (creator == All().creators.end()) {
            return nullptr;
        }
        op = creator->second();
    }
    return op.get();
}

gert::StorageShape ShapeOf(const int64_t* dims, int64_t rank) {
    gert::StorageShape shape;
    for (int64_t i = 0; i < rank; ++i) {
        shape.MutableOriginShape().AppendDim(dims[i]);
        shape.MutableStorageShape().AppendDim(dims[i]);
    }
    return shape;
}

size_t ItemSize(ge::DataType type) {
    switch (type) {
        case ge::DT_INT8: case ge::DT_UINT8: case ge::DT_BOOL: return 1;
        case ge::DT_FLOAT16: case ge::DT_BF16: case ge::DT_INT16: case ge::DT_UINT16: return 2;
        case ge::DT_FLOAT: case ge::DT_INT32: case ge::DT_UINT32: return 4;
        default: return 8;
    }
}

// What twin_ge_execute was given, alive until twin_ge_free.
struct Call {
    twin_cann::EagerCall eager;
    std::vector<void*> addresses;  // of inputs

    ~Call() {
        for (void* const address : addresses) {
            twin_cann::ForgetMemory(address);
        }
    }
};

}  // namespace

namespace twin_cann {

// Nothing of what is allocated is zero by chance; a tensor without elements has no memory.
OwnedMemory::OwnedMemory(size_t size, int fill, Use use)
    : data(size == 0 ? nullptr : std::aligned_alloc(64, (size + 63) / 64 * 64)), bytes(size) {
    if (data != nullptr) {
        std::memset(data, fill, bytes);
        RecordMemory(data, bytes, use);
    }
}

OwnedMemory::~OwnedMemory() {
    if (data != nullptr) {
        ForgetMemory(data);
        std::free(data);
    }
}

}  // namespace twin_cann

namespace ge {

Operator OperatorFactory::CreateOperator(const char* operator_name, const char* operator_type) {
    const std::lock_guard<std::mutex> hold(All().lock);
    const auto found = All().irs.find(operator_type);
    return found == All().irs.end() ? Operator() : found->second(AscendString(operator_name));
}

bool OperatorFactory::IsExistOp(const char* operator_type) {
    const std::lock_guard<std::mutex> hold(All().lock);
    return All().irs.count(operator_type) != 0;
}

OperatorCreatorRegister::OperatorCreatorRegister(const char* operator_type, const OpCreatorV2& op_creator) {
    const std::lock_guard<std::mutex> hold(All().lock);
    All().irs.emplace(operator_type, op_creator);
}

CustomOpCreatorRegister::CustomOpCreatorRegister(const AscendString& operator_type, const BaseOpCreator& op_creator) {
    const std::lock_guard<std::mutex> hold(All().lock);
    All().creators.emplace(operator_type.GetString(), op_creator);
}

}  // namespace ge

namespace gert {

rtStream EagerOpExecutionContext::GetStream() const {
    return nullptr;
}

const Tensor* EagerOpExecutionContext::GetInputTensor(size_t index) const {
    return index < call_.inputs.size() ? &call_.inputs[index] : nullptr;
}

const Tensor* EagerOpExecutionContext::GetOutputTensor(size_t index) const {
    return index < call_.outputs.size() ? call_.outputs[index].get() : nullptr;
}

Tensor* EagerOpExecutionContext::MallocOutputTensor(size_t index, const StorageShape& shape,
                                                    const StorageFormat& format, ge::DataType dtype) {
    const bool fresh = index < call_.outputs.size() && call_.outputs[index] == nullptr;
    if (!fresh || format.GetStorageFormat() != ge::FORMAT_ND) {
        return nullptr;
    }
    const size_t bytes = static_cast<size_t>(shape.GetStorageShape().GetShapeSize()) * ItemSize(dtype);
    const twin_cann::OwnedMemory& memory = call_.memory.emplace_back(bytes, 0x5a, twin_cann::Use::kOutput);
    call_.output_memory[index] = &memory;
    call_.outputs[index] = std::make_unique<Tensor>(shape, format, dtype, memory.data);
    return call_.outputs[index].get();
}

void* EagerOpExecutionContext::MallocWorkSpace(size_t size) {
    return call_.memory.emplace_back(size, 0xff, twin_cann::Use::kWorkspace).data;  // NaN as floats
}

#if __has_include("exe_graph/runtime/update_args_context.h")
const KernelArgs* EagerOpExecutionContext::MallocReadOnlyDevArgs(void* host_args, size_t args_size) const {
    static thread_local KernelArgs made;
    std::vector<uint64_t> words(args_size / 8);
    std::memcpy(words.data(), host_args, args_size);
    call_.host_args.push_back(words);
    call_.device_args.push_back(words);
    made = {call_.device_args.back().data(), args_size, Placement::kPlacementDevice};
    return &made;
}

const KernelArgs* UpdateArgsContext::GetKernelArgs(Placement placement, size_t index) const {
    static thread_local KernelArgs made;
    auto& kept = placement == Placement::kPlacementHost ? call_.host_args : call_.device_args;
    if (index >= kept.size()) {
        return nullptr;
    }
    made = {kept[index].data(), kept[index].size() * 8, placement};
    return &made;
}
#endif

}  // namespace gert

extern "C" {

// "input,input>output" of the IR of an op type, "" when it is unknown.
const char* twin_ge_ir(const char* type) {
    static thread_local std::string text;
    text.clear();
    if (!ge::OperatorFactory::IsExistOp(type)) {
        return text.c_str();
    }
    const ge::Operator op = ge::OperatorFactory::CreateOperator("node", type);
    for (const std::string& name : op.InputsForTests()) {
        text += (text.empty() ? "" : ",") + name;
    }
    text += ">";
    for (const std::string& name : op.OutputsForTests()) {
        text += (text.back() == '>' ? "" : ",") + name;
    }
    return text.c_str();
}

// Shape inference. Dims lie one after the other, 25 per tensor; ranks and types one per tensor. 0: success.
uint32_t twin_ge_infer(const char* type, int64_t inputs, const int64_t* ranks, const int64_t* dims, int64_t outputs,
                       int64_t* out_ranks, int64_t* out_dims, int64_t* out_types) {
    auto* const op = dynamic_cast<ge::ShapeInferOp*>(Op(type));
    if (op == nullptr) {
        return 1;
    }
    std::vector<gert::Shape> given, made(static_cast<size_t>(outputs));
    for (int64_t i = 0; i < inputs; ++i) {
        given.push_back(ShapeOf(dims + i * 25, ranks[i]).GetOriginShape());
    }
    std::vector<ge::DataType> in_types(given.size(), ge::DT_FLOAT), types(made.size(), ge::DT_UNDEFINED);
    gert::InferShapeContext shape_context(given, made);
    gert::InferDataTypeContext type_context(in_types, types);
    if (op->InferShape(&shape_context) != ge::GRAPH_SUCCESS || op->InferDataType(&type_context) != ge::GRAPH_SUCCESS) {
        return 2;
    }
    for (int64_t i = 0; i < outputs; ++i) {
        const gert::Shape& shape = made[static_cast<size_t>(i)];
        out_ranks[i] = static_cast<int64_t>(shape.GetDimNum());
        out_types[i] = types[static_cast<size_t>(i)];
        for (size_t k = 0; k < shape.GetDimNum(); ++k) {
            out_dims[i * 25 + static_cast<int64_t>(k)] = shape.GetDim(k);
        }
    }
    return 0;
}

// Executes an op. Returns a call to ask for outputs, nullptr when the op failed.
void* twin_ge_execute(const char* type, int64_t inputs, const int64_t* ranks, const int64_t* dims, const int64_t* types,
                      void* const* addresses, const int64_t* bytes, int64_t outputs) {
    auto* const op = dynamic_cast<ge::EagerExecuteOp*>(Op(type));
    auto made = std::make_unique<Call>();
    for (int64_t i = 0; i < inputs; ++i) {
        void* const address = bytes[i] == 0 ? nullptr : addresses[i];
        const gert::StorageFormat format(ge::FORMAT_ND, ge::FORMAT_ND, gert::ExpandDimsType());
        const auto ge_type = static_cast<ge::DataType>(types[i]);
        made->eager.inputs.emplace_back(ShapeOf(dims + i * 25, ranks[i]), format, ge_type, address);
        if (address != nullptr) {
            twin_cann::RecordMemory(address, static_cast<size_t>(bytes[i]), twin_cann::Use::kInput);
            made->addresses.push_back(address);
        }
    }
    made->eager.outputs.resize(static_cast<size_t>(outputs));
    made->eager.output_memory.resize(static_cast<size_t>(outputs));
    gert::EagerOpExecutionContext context(made->eager);
    if (op == nullptr || op->Execute(&context) != ge::GRAPH_SUCCESS) {
        return nullptr;
    }
    return made.release();
}

// An output of a call: its bytes, with its rank and dims.
const void* twin_ge_output(void* call, int64_t index, int64_t* rank, int64_t* dims, int64_t* bytes) {
    const twin_cann::EagerCall& eager = static_cast<Call*>(call)->eager;
    const gert::Tensor* const tensor = eager.outputs.at(static_cast<size_t>(index)).get();
    if (tensor == nullptr) {
        return nullptr;
    }
    *rank = static_cast<int64_t>(tensor->GetOriginShape().GetDimNum());
    for (int64_t i = 0; i < *rank; ++i) {
        dims[i] = tensor->GetOriginShape().GetDim(static_cast<size_t>(i));
    }
    *bytes = static_cast<int64_t>(eager.output_memory[static_cast<size_t>(index)]->bytes);
    return tensor->GetAddr();
}

void twin_ge_free(void* call) {
    delete static_cast<Call*>(call);
}

#if __has_include("exe_graph/runtime/update_args_context.h")
// GE moved the first input: asks the op for the new arguments. Returns the words that changed; -1 when the op failed.
int64_t twin_ge_move_input(const char* type, void* call, void* address) {
    twin_cann::EagerCall& eager = static_cast<Call*>(call)->eager;
    auto* const op = dynamic_cast<ge::ArgsUpdater*>(Op(type));
    const gert::Tensor old = eager.inputs.at(0);
    eager.inputs[0] = gert::Tensor(old.GetShape(), old.GetFormat(), old.GetDataType(), address);
    gert::UpdateArgsContext context(eager);
    if (op == nullptr || op->UpdateHostArgs(&context) != ge::GRAPH_SUCCESS) {
        return -1;
    }
    int64_t changed = 0;
    for (size_t k = 0; k < eager.host_args.size(); ++k) {
        for (size_t i = 0; i < eager.host_args[k].size(); ++i) {
            const bool differs = eager.host_args[k][i] != eager.device_args[k][i];
            changed += differs ? 1 : 0;
            if (differs && eager.host_args[k][i] != reinterpret_cast<uint64_t>(address)) {
                return -1;
            }
        }
    }
    return changed;
}
#endif
}
