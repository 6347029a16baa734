// Look-alike of exe_graph/runtime/eager_op_execution_context.h: what a custom op is given to execute. What lies behind
// it is twin_cann::EagerCall (jit/eager_call.h).
#pragma once

#include <cstddef>

#include "tensor.h"

#if __has_include("exe_graph/runtime/kernel_args.h")  // CANN 9.2
#include "exe_graph/runtime/kernel_args.h"
#endif

namespace twin_cann {
struct EagerCall;
}

namespace gert {

using rtStream = void*;

class EagerOpExecutionContext {
public:
    explicit EagerOpExecutionContext(twin_cann::EagerCall& call) : call_(call) {}

    rtStream GetStream() const;
    const Tensor* GetInputTensor(size_t index) const;    // nullptr where there is no such input
    const Tensor* GetOutputTensor(size_t index) const;   // the same of outputs
    Tensor* MallocOutputTensor(size_t index, const StorageShape& shape, const StorageFormat& format, ge::DataType dtype);
    void* MallocWorkSpace(size_t size);
#if __has_include("exe_graph/runtime/kernel_args.h")
    const KernelArgs* MallocReadOnlyDevArgs(void* host_args, size_t args_size) const;
#endif

protected:
    twin_cann::EagerCall& call_;
};

}  // namespace gert
