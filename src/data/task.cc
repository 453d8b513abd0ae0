#include "data/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cosformer/error.h"
#include "data/tasks/tasks.h"
#include "formats/option_reader.h"

namespace cosformer::data {

std::string_view Name(Split split) {
  constexpr std::string_view kNames[] = {"train", "valid", "test"};
  return kNames[static_cast<size_t>(split)];
}

const std::vector<std::unique_ptr<Task>>& Tasks() {
  static const std::vector<std::unique_ptr<Task>> tasks = [] {
    std::vector<std::unique_ptr<Task>> list;
    list.push_back(MakeLanguageModel());
    list.push_back(MakeMaskedLanguageModel());
    list.push_back(MakeClassify());
    list.push_back(MakeTranslate());
    list.push_back(MakeListOps());
    list.push_back(MakeByteText());
    list.push_back(MakeRetrieval());
    list.push_back(MakeImage());
    list.push_back(MakePathfinder());
    return list;
  }();
  return tasks;
}

const Task& FindTask(std::string_view name, std::string_view where) {
  std::vector<std::string> names;
  for (const auto& task : Tasks()) {
    if (task->description().name == name) return *task;
    names.push_back(task->description().name);
  }
  const std::string nearest = Nearest(name, names);
  throw Error(fmt::format("{}there is no task \"{}\"{}; there are {}",
                          where.empty() ? "" : fmt::format("\"{}\": ", where), name,
                          nearest.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", nearest),
                          fmt::join(names, ", ")));
}

}  // namespace cosformer::data
