// Look-alike of graph/operator_factory.h: the IRs that GE knows, by op type. The first one of a type stays.
#pragma once

#include <functional>

#include "graph/operator.h"

namespace ge {

using OpCreatorV2 = std::function<Operator(const AscendString&)>;

class OperatorFactory {
public:
    static Operator CreateOperator(const char* operator_name, const char* operator_type);
    static bool IsExistOp(const char* operator_type);
};

class OperatorCreatorRegister {
public:
    OperatorCreatorRegister(const char* operator_type, const OpCreatorV2& op_creator);
    ~OperatorCreatorRegister() = default;
};

}  // namespace ge
