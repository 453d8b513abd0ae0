// Folders of data for the tests of tasks, and everything a task reads from them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "contains.h"
#include "data/task.h"
#include "formats/folder.h"

namespace cosformer::data {

struct Example {
  std::string first, second, label;
  std::string file;  // its name without the folder
  int64_t line = 0;

  bool operator==(const Example&) const = default;
};

inline void PrintTo(const Example& example, std::ostream* out) {
  *out << "{\"" << example.first << "\", \"" << example.second << "\", \"" << example.label
       << "\", " << example.file << ":" << example.line << "}";
}

class ReadingTest : public testing::FolderTest {
 protected:
  // Also into folders below that are not there yet.
  std::string Put(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    return Write(name, contents);
  }

  Source Here() const { return {.data = folder_.string()}; }

  static std::vector<Example> ReadAll(const std::string& task, const Source& source,
                                      Split split = Split::kTrain) {
    std::vector<Example> examples;
    FindTask(task).Read(source, split, [&](RawExample raw) {
      examples.push_back({raw.first, raw.second, raw.label,
                          std::filesystem::path(raw.file).filename().string(), raw.line});
    });
    return examples;
  }

  // The names of the files of a split, below the folder.
  std::vector<std::string> FilesOf(const std::string& task, const Source& source,
                                   Split split) const {
    std::vector<std::string> names;
    for (const std::string& file : FindTask(task).Files(source, split)) {
      names.push_back(std::filesystem::relative(file, folder_).string());
    }
    return names;
  }

  // What reading it says, with the folder's name shortened to FOLDER.
  std::string Sentence(const std::string& task, const Source& source,
                       Split split = Split::kTrain) const {
    std::string sentence = testing::MessageOf([&] { ReadAll(task, source, split); });
    for (size_t at; (at = sentence.find(folder_.string())) != std::string::npos;) {
      sentence.replace(at, folder_.string().size(), "FOLDER");
    }
    return sentence;
  }
};

}  // namespace cosformer::data
