// The one exception of the library: a sentence that names what is wrong, what was expected and what
// to do. Thrown where bad input enters, before anything is written; caught once, in main or at the
// request.
#pragma once

#include <stdexcept>

namespace cosformer {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cosformer
