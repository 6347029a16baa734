// What a look-alike raises where CANN would go on with a wrong value, overwrite silently, or fail far from the cause.
#pragma once

#include <stdexcept>
#include <string>

namespace twin_cann {

class RuleError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void Broken(const std::string& text) {
    throw RuleError(text);
}

}  // namespace twin_cann
