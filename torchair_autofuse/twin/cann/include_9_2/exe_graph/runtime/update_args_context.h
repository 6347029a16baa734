// Look-alike of exe_graph/runtime/update_args_context.h (CANN 9.2).
#pragma once

#include "exe_graph/runtime/eager_op_execution_context.h"

namespace gert {

class UpdateArgsContext : public EagerOpExecutionContext {
public:
    using EagerOpExecutionContext::EagerOpExecutionContext;

    // `index`: of the call of MallocReadOnlyDevArgs.
    const KernelArgs* GetKernelArgs(Placement placement, size_t index) const;
};

}  // namespace gert
