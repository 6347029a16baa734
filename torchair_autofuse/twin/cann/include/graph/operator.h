// Look-alike of graph/operator.h: an operator that knows its type and the names of its inputs and outputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"
#include "graph/types.h"
#include "twin/rule.h"

namespace ge {

class Operator {
public:
    Operator() = default;
    Operator(const AscendString& name, const AscendString& type) : ir_(std::make_shared<Ir>()) {
        ir_->name = name.GetString();
        ir_->type = type.GetString();
    }

    const std::string& TypeForTests() const { return ir_->type; }
    const std::vector<std::string>& InputsForTests() const { return ir_->inputs; }
    const std::vector<std::string>& OutputsForTests() const { return ir_->outputs; }

protected:
    void InputRegister(const char* name) { Add(ir_->inputs, name); }
    void OutputRegister(const char* name) { Add(ir_->outputs, name); }

private:
    struct Ir {
        std::string name, type;
        std::vector<std::string> inputs, outputs;
    };

    static void Add(std::vector<std::string>& names, const char* name) {
        for (const std::string& taken : names) {
            if (taken == name) {
                twin_cann::Broken("an IR names " + taken + " twice");
            }
        }
        names.emplace_back(name);
    }

    std::shared_ptr<Ir> ir_;  // shared by copies, as in GE
};

}  // namespace ge
