// Assertions about text that show it when they fail, and the sentence of an Error.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cosformer/error.h"

namespace cosformer::testing {

inline ::testing::AssertionResult Contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) {
    return ::testing::AssertionSuccess() << "\"" << text << "\" contains \"" << part << "\"";
  }
  return ::testing::AssertionFailure() << "\"" << text << "\" lacks \"" << part << "\"";
}

// What the function throws says; empty if it throws nothing.
template <class Function>
std::string MessageOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace cosformer::testing
