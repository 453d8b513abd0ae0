// A call that must fail, and what its sentence must hold.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "cosformer/error.h"

namespace cosformer::testing {

template <class Call>
void ExpectError(std::string_view name, const std::vector<std::string>& mentions, Call call) {
  try {
    call();
    ADD_FAILURE() << name << ": no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const std::string& part : mentions) {
      EXPECT_NE(message.find(part), std::string::npos)
          << name << ": \"" << message << "\" does not mention \"" << part << "\"";
    }
  }
}

}  // namespace cosformer::testing
