// The tasks there are, one function each. A new one is declared here and listed in task.cc.
#pragma once

#include <memory>

#include "data/task.h"

namespace cosformer::data {

std::unique_ptr<Task> MakeLanguageModel();
std::unique_ptr<Task> MakeMaskedLanguageModel();
std::unique_ptr<Task> MakeClassify();
std::unique_ptr<Task> MakeTranslate();

// The Long-Range Arena.
std::unique_ptr<Task> MakeListOps();
std::unique_ptr<Task> MakeByteText();
std::unique_ptr<Task> MakeRetrieval();
std::unique_ptr<Task> MakeImage();
std::unique_ptr<Task> MakePathfinder();

}  // namespace cosformer::data
