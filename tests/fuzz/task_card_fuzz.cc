// task.json: what was read is the same when it is written and read again.
#include "formats/task_card.h"

#include "fuzz.h"

namespace cosformer::fuzz {

void Try(std::string_view input) {
  FileOf("task.json", input);
  const TaskCard card = ReadTaskCard(Folder());
  MustAccept("a card that was read can be written and read again", [&] {
    WriteTaskCard(Folder(), card);
    Check(ReadTaskCard(Folder()) == card, "a card that is written comes back");
  });
}

}  // namespace cosformer::fuzz
