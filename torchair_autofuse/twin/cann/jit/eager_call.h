// One call of a custom op by the small GE of the tests: its tensors, and what the op asked for.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "exe_graph/runtime/tensor.h"

namespace twin_cann {

// Memory of the twin's device. The kernel may touch what is recorded here only.
enum class Use : int { kInput = 0, kOutput = 1, kWorkspace = 2 };
void RecordMemory(const void* address, size_t bytes, Use use);
void ForgetMemory(const void* address);

struct OwnedMemory {
    OwnedMemory(size_t bytes, int fill, Use use);
    ~OwnedMemory();
    OwnedMemory(const OwnedMemory&) = delete;
    OwnedMemory& operator=(const OwnedMemory&) = delete;

    void* data;
    size_t bytes;
};

struct EagerCall {
    std::vector<gert::Tensor> inputs;
    std::vector<std::unique_ptr<gert::Tensor>> outputs;
    std::deque<OwnedMemory> memory;           // of outputs and workspaces
    std::vector<const OwnedMemory*> output_memory;  // by output
    std::deque<std::vector<uint64_t>> host_args, device_args;  // one each per MallocReadOnlyDevArgs
};

}  // namespace twin_cann
