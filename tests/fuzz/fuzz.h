// What the fuzz targets share. A target gives bytes to one reader and uses what it accepts, so that
// a span out of range or a broken promise shows. Error is the only thing that a reader may throw.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "cosformer/error.h"

namespace cosformer::fuzz {

// Each target defines this one function. It may throw Error, for what the reader refuses; whatever
// else leaves it is a finding.
void Try(std::string_view input);

// Ends the process, which the fuzzer takes for a finding and keeps the input of.
[[noreturn]] void Fail(std::string_view promise, std::string_view found = "");
inline void Check(bool holds, std::string_view promise) {
  if (!holds) Fail(promise);
}

// A refusal has to be a sentence that can be shown: not empty, not endless, UTF-8.
void CheckSentence(std::string_view sentence);

// For a target that reads its input in several ways, each of which may refuse it.
template <class Call>
void MayRefuse(Call call) {
  try {
    call();
  } catch (const Error& error) {
    CheckSentence(error.what());
  }
}

// For what has to be accepted: a refusal is a finding.
template <class Call>
auto MustAccept(std::string_view promise, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    Fail(promise, error.what());
  }
}

// For readers that take a path: a folder of this process, and in it a file of that name that holds
// the input. The file before it of the same name is overwritten.
const std::string& Folder();
std::string FileOf(const std::string& name, std::string_view input);

}  // namespace cosformer::fuzz
