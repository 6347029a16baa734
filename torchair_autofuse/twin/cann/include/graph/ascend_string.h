// Look-alike of graph/ascend_string.h.
#pragma once

#include <memory>
#include <string>

namespace ge {

class AscendString {
public:
    AscendString() = default;
    AscendString(const char* const name) : name_(name == nullptr ? nullptr : std::make_shared<std::string>(name)) {}

    const char* GetString() const { return name_ == nullptr ? "" : name_->c_str(); }
    size_t GetLength() const { return name_ == nullptr ? 0 : name_->length(); }
    bool operator<(const AscendString& other) const { return std::string(GetString()) < other.GetString(); }
    bool operator==(const AscendString& other) const { return std::string(GetString()) == other.GetString(); }

private:
    std::shared_ptr<std::string> name_;
};

}  // namespace ge
