// `cosformer generate` and `cosformer attention`, as processes.
#include "models.h"

namespace cosformer::testing {
namespace {

using GenerateCommand = ModelCommandTest;
using AttentionCommand = ModelCommandTest;
using nlohmann::json;

TEST_F(GenerateCommand, WritesTheSameTextForTheSameSeedAndAnotherForAnother) {
  WriteModel("m");
  const Outcome first = Run("generate m --prompt hello --seed 1 --max-tokens 30 --ignore-end");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.err, "");
  EXPECT_EQ(Run("generate m --prompt hello --seed 1 --max-tokens 30 --ignore-end").out, first.out);
  EXPECT_EQ(Run("generate m --prompt hello --seed 1 --max-tokens 30 --ignore-end --threads 1").out,
            first.out);
  EXPECT_NE(Run("generate m --prompt hello --seed 2 --max-tokens 30 --ignore-end").out, first.out);
}

TEST_F(GenerateCommand, TakesThePromptFromAFileOrStandardInputOrAsTokens) {
  WriteModel("m");
  const std::string options = " --seed 1 --max-tokens 20 --ignore-end";
  const std::string expected = Run("generate m --prompt hello" + options).out;
  WriteText("p.txt", "hello");
  EXPECT_EQ(Run("generate m --file p.txt" + options).out, expected);
  EXPECT_EQ(Run("generate m --prompt-tokens 104,101,108,108,111" + options).out, expected);
  const std::string piped = "cd '" + folder_.string() +
                            "' && printf hello | '" COSFORMER_COMMAND "' generate m" + options +
                            " >.piped";
  ASSERT_EQ(std::system(piped.c_str()), 0);
  EXPECT_EQ(ReadFile(folder_ / ".piped"), expected);
  // Options that may be given again leave the model alone.
  EXPECT_EQ(
      Run("generate --stop zzz --bias 3=0 --prompt-tokens 104,101,108,108,111 m" + options).out,
      expected);
}

TEST_F(GenerateCommand, ShowsThePromptBeforeTheTextUnlessToldNotTo) {
  WriteModel("m");
  const std::string options = " --seed 1 --max-tokens 20 --ignore-end";
  const std::string text = Run("generate m --prompt hello --no-echo" + options).out;
  EXPECT_EQ(Run("generate m --prompt hello" + options).out, "hello" + text);
  EXPECT_EQ(Run("generate m --prompt-tokens 104,101,108,108,111 --no-echo" + options).out, text);
  WriteText("p.txt", "hello\n");
  EXPECT_EQ(Run("generate m --file p.txt --no-echo" + options).out, text);
  const Outcome json = Run("generate m --prompt hello --json -" + options);
  EXPECT_EQ(json.err, "hello" + text);
  EXPECT_EQ(json::parse(json.out)["text"].get<std::string>() + "\n", text);
  const std::string beams = "generate m --prompt hello --beams 1 --max-tokens 3";
  EXPECT_TRUE(Contains(Run(beams).out, "  hello"));
  EXPECT_FALSE(Contains(Run(beams + " --no-echo").out, "  hello"));
}

std::vector<json> LinesOf(const std::string& text) {
  std::istringstream lines(text);
  std::vector<json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(json::parse(line));
  return objects;
}

TEST_F(GenerateCommand, StreamsALineOfJsonForEveryTokenAndTheTextAsTheLast) {
  WriteModel("m");
  const std::string command =
      "generate m --prompt a --seed 3 --max-tokens 40 --ignore-end --likeliest 2 --stop zzz ";
  const json whole = JsonOf(command);
  const Outcome outcome = Run(command + "--json-lines -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<json> lines = LinesOf(outcome.out);
  ASSERT_EQ(lines.size(), 41u);
  json last = lines.back();
  lines.pop_back();
  std::string shown;
  for (size_t i = 0; i < lines.size(); ++i) {
    shown += lines[i]["shown"];
    lines[i].erase("shown");
    EXPECT_EQ(lines[i], whole["tokens"][i]);
  }
  EXPECT_EQ(shown, whole["text"].get<std::string>());
  for (const char* key : {"text", "reason", "seed", "prompt_tokens"}) {
    EXPECT_EQ(last[key], whole[key]) << key;
  }
  EXPECT_TRUE(last["stats"].contains("seconds"));
  EXPECT_FALSE(last.contains("tokens"));
  EXPECT_EQ(outcome.err, "a" + shown + "\n");
  ASSERT_EQ(Run(command + "--json-lines lines").out, outcome.err);
  EXPECT_EQ(LinesOf(ReadFile(folder_ / "lines")).size(), 41u);
  ExpectRefusal("generate m --prompt a --json-lines - --json x", "does not go with --json");
  ExpectRefusal("generate m --prompt a --json-lines /nowhere/x", "/nowhere/x");
  EXPECT_NE(Run("generate m --prompt a --json-lines /dev/full").code, 0);
}

// More than are written together.
TEST_F(GenerateCommand, WritesForEveryLineOfAFileWhatItWritesForItAlone) {
  WriteModel("m");
  std::string prompts;
  for (int i = 0; i < 34; ++i) prompts += i == 2 ? "\n" : SomeText(1 + i * 5 % 40) + "\n";
  WriteText("prompts", prompts);
  const std::string options = " --max-tokens 9 --repetition-penalty 1.5 --likeliest 1";
  const Outcome outcome =
      Run("generate m --prompts prompts --seed 7 --json all.json --stats" + options);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.err, "seed      7, and those after it"));
  const json texts = json::parse(ReadFile(folder_ / "all.json"))["texts"];
  ASSERT_EQ(texts.size(), 34u);
  for (const size_t i : {0, 1, 2, 31, 32, 33}) {
    SCOPED_TRACE(i);
    const std::string prompt = texts[i]["prompt"];
    EXPECT_EQ(texts[i]["line"], i + 1);
    EXPECT_EQ(texts[i]["seed"], 7 + i);
    const std::string seed = " --seed " + std::to_string(7 + i);
    const json alone = JsonOf("generate m --prompt '" + prompt + "'" + seed + options);
    for (const char* key : {"text", "reason", "seed", "prompt_tokens", "tokens"}) {
      EXPECT_EQ(texts[i][key], alone[key]) << key;
    }
    EXPECT_TRUE(Contains(outcome.out, "==> " + std::to_string(i + 1) + " <==\n" + prompt +
                                          alone["text"].get<std::string>() + "\n"));
  }
  const Outcome lines = Run("generate m --prompts - --seed 7 --json-lines -" + options, "prompts");
  ASSERT_EQ(lines.code, 0) << lines.err;
  EXPECT_EQ(lines.err, outcome.out);
  size_t written = 0;
  std::vector<std::string> shown(35);
  for (const json& line : LinesOf(lines.out)) {
    if (line.contains("token")) {
      shown[line["line"]] += line["shown"];
    } else if (line.contains("line")) {
      EXPECT_EQ(line["text"], texts[written]["text"]);
      EXPECT_EQ(line["text"], shown[++written]);
    } else {
      EXPECT_EQ(line["texts"], 34);
    }
  }
  EXPECT_EQ(written, 34u);
}

TEST_F(GenerateCommand, ReadsAllPromptsOfAFileBeforeItWrites) {
  WriteModel("m");
  WriteText("empty", "");
  WriteText("broken", "one\ntwo \xff\n");
  WriteText("long", "one\n\n" + SomeText(97) + "\n");
  ExpectRefusal("generate m --prompts empty", "\"empty\" is empty: give a prompt a line");
  ExpectRefusal("generate m --prompts broken", "line 2 of \"broken\" is no UTF-8: byte 4 (0xff)");
  ExpectRefusal("generate m --no-endless --prompts long",
                "line 3 of \"long\": the text has 97 tokens");
  ExpectRefusal("generate m --prompts long --prompt a", "give one of");
  for (const std::string option : {"--session s", "--save-session s", "--beams 2", "--chat"}) {
    ExpectRefusal("generate m --prompts long " + option,
                  "does not go with " + option.substr(0, option.find(' ')));
  }
}

TEST_F(GenerateCommand, GivesJsonWithEveryTokenAndItsAlternatives) {
  WriteModel("m");
  const Outcome outcome =
      Run("generate m --prompt a --seed 3 --max-tokens 4 --ignore-end --likeliest 2 --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result["reason"], "length");
  EXPECT_EQ(result["seed"], 3);
  EXPECT_EQ(result["prompt_tokens"], 1);
  ASSERT_EQ(result["tokens"].size(), 4u);
  for (const json& token : result["tokens"]) {
    EXPECT_LE(token["log_probability"], 0);
    ASSERT_EQ(token["likeliest"].size(), 2u);
    EXPECT_GE(token["likeliest"][0]["log_probability"], token["likeliest"][1]["log_probability"]);
  }
  EXPECT_GT(result["stats"]["peak_bytes"], 0);
}

TEST_F(GenerateCommand, GoesOnWithASavedSession) {
  WriteModel("m");
  const std::string options = " --temperature 0 --repetition-penalty 1.8 --ignore-end ";
  const std::string whole =
      Run("generate m --prompt hello" + options + "--max-tokens 12 --json -").out;
  ASSERT_EQ(Run("generate m --prompt hello" + options + "--max-tokens 5 --save-session s").code, 0);
  const Outcome rest = Run("generate m --session s" + options + "--max-tokens 7 --json -");
  ASSERT_EQ(rest.code, 0) << rest.err;
  const json all = json::parse(whole)["tokens"], later = json::parse(rest.out)["tokens"];
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(later[i]["token"], all[i + 5]["token"]);
  WriteModel("other", {{"width", 32}});
  ExpectRefusal("generate other --session s", "another model");
}

TEST_F(GenerateCommand, GoesOnPastTheHorizonUnlessItIsToEndThere) {
  WriteModel("m");
  const std::string options = " --seed 1 --max-tokens 200 --ignore-end";
  const json endless = JsonOf("generate m --prompt a" + options);
  EXPECT_EQ(endless["tokens"].size(), 200u);
  EXPECT_EQ(JsonOf("generate m --prompt a --endless" + options)["tokens"], endless["tokens"]);
  WriteText("long.txt", SomeText(1000));
  EXPECT_EQ(Run("generate m --file long.txt --max-tokens 3").code, 0);
  const Outcome ending = Run("generate m --prompt a --no-endless" + options);
  EXPECT_EQ(ending.code, 0);
  EXPECT_TRUE(Contains(ending.err,
                       "cosformer: the text ends here, as the horizon of its re-weighting is 96; "
                       "without --no-endless it would go on\n"));
  ExpectRefusal("generate m --prompt a --endless --no-endless", "--endless");
  WriteModel("by_config", {{"attention", {{"system", "cosformer"}, {"endless", true}}}});
  ExpectRefusal("generate by_config --prompt a --no-endless",
                "--no-endless is not for this model: its config.json makes it endless");
  // With nothing asked for, models that have to end are run as they are.
  WriteModel("learned", {{"positions", "learned"}});
  const Outcome learned = Run("generate learned --prompt a" + options);
  EXPECT_EQ(learned.code, 0);
  EXPECT_TRUE(Contains(learned.err, "as its learned positions end at 96\n"));
}

TEST_F(GenerateCommand, ASessionKeepsToTheEndThatItBeganWith) {
  WriteModel("m");
  // Writing as many tokens as there is room for is no reason to lose the session. The last token is
  // read by none, so that there is one more than the horizon has places.
  const Outcome full =
      Run("generate m --prompt-tokens 5 --seed 1 --max-tokens 96 --ignore-end --save-session s "
          "--no-endless --json -");
  ASSERT_EQ(full.code, 0) << full.err;
  EXPECT_EQ(json::parse(full.out)["tokens"].size(), 96u);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "s"));
  const std::string why = "its session was begun to end with the horizon, 96";
  ExpectRefusal("generate m --session s --endless", "--endless is not for \"s\", as " + why);
  ExpectRefusal("generate m --session s --prompt b", "its session was begun to end");
  const Outcome rest = Run("generate m --session s --max-tokens 5 --ignore-end");
  EXPECT_EQ(rest.code, 0);
  EXPECT_TRUE(Contains(rest.err, "the text ends here, as " + why));
  ASSERT_EQ(Run("generate m --prompt a --max-tokens 3 --save-session on").code, 0);
  ExpectRefusal("generate m --session on --no-endless",
                "is endless, but one that ends with its horizon is expected");
}

TEST_F(GenerateCommand, WritesWithoutANumberOfTokensUntilItIsStopped) {
  WriteModel("m");
  const std::string options = "generate m --prompt a --seed 1 --max-tokens 0 ";
  const json stopped = JsonOf(options + "--ignore-end --stop xxxx --bias 120=1000");
  EXPECT_EQ(stopped["reason"], "stop");
  EXPECT_EQ(JsonOf(options + "--bias 257=1000")["reason"], "end");
  EXPECT_EQ(JsonOf(options + "--no-endless --ignore-end")["reason"], "limit");
  // Far past what is written where nothing is said, until nobody reads it any more.
  const std::string cut = "cd '" + folder_.string() + "' && '" COSFORMER_COMMAND "' " + options +
                          "--ignore-end --bias 120=1000 | head -c 5000 >.cut";
  ASSERT_EQ(std::system(cut.c_str()), 0);
  EXPECT_EQ(ReadFile(folder_ / ".cut"), "a" + std::string(4999, 'x'));
  ExpectRefusal("generate m --prompt a --beams 2 --max-tokens 0", "max_tokens is 0");
}

TEST_F(GenerateCommand, SaysThatASessionLeavesStandardInputAlone) {
  WriteModel("m");
  ASSERT_EQ(Run("generate m --prompt hello --max-tokens 5 --save-session s").code, 0);
  WriteText("text", "more");
  const std::string command = "generate m --session s --max-tokens 3 --seed 1 ";
  const Outcome alone = Run(command, "text");
  EXPECT_EQ(alone.code, 0);
  EXPECT_TRUE(Contains(alone.err, "standard input is not read; --file - reads it"));
  EXPECT_EQ(Run(command).out, alone.out);
  EXPECT_EQ(Run(command).err, "");
  const Outcome read = Run(command + "--file - --json -", "text");
  EXPECT_EQ(json::parse(read.out)["prompt_tokens"], 4);
}

TEST_F(GenerateCommand, FindsBeams) {
  WriteModel("m");
  const Outcome outcome = Run("generate m --prompt a --beams 3 --max-tokens 4 --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json beams = json::parse(outcome.out)["beams"];
  ASSERT_EQ(beams.size(), 3u);
  EXPECT_GE(beams[0]["score"], beams[1]["score"]);
}

TEST_F(GenerateCommand, FillsBlanksWithAMaskedModel) {
  WriteModel("m", {{"model", "encoder"}});
  const Outcome outcome = Run("generate m --prompt 'one <mask> two <mask>' --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  ASSERT_EQ(result["blanks"].size(), 2u);
  EXPECT_EQ(result["blanks"][0].size(), 5u);
  EXPECT_EQ(JsonOf("generate m --prompt '<mask>' --likeliest 2")["blanks"][0].size(), 2u);
  EXPECT_EQ(JsonOf("generate m --prompt '<mask>' --likeliest 7")["blanks"][0].size(), 7u);
  ExpectRefusal("generate m --prompt none", "write <mask>");
  ExpectRefusal("generate m --prompt '<mask>' --likeliest=-1", "--likeliest is -1");
}

TEST_F(GenerateCommand, AMaskedModelRefusesOptionsThatAreForWriting) {
  WriteModel("m", {{"model", "encoder"}});
  for (const std::string option :
       {"--temperature 1", "--top-k 3", "--stop a", "--max-tokens 3", "--seed 1", "--bias 3=1",
        "--ignore-end", "--beams 2", "--session s", "--save-session s", "--endless", "--no-endless",
        "--no-echo", "--json-lines x", "--stats", "--chat"}) {
    const std::string name = option.substr(0, option.find(' '));
    ExpectRefusal("generate m --prompt '<mask>' " + option, name + " is for models that write");
  }
  ExpectRefusal("generate m --prompt-tokens 5", "--prompt-tokens is for models that write");
  ExpectRefusal("generate m --chat", "--chat is for models that write");
  ExpectRefusal("generate m --prompts p", "--prompts is for models that write");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s"));
  WriteText("text", "one <mask>\n");
  const std::string expected = Run("generate m --prompt 'one <mask>'").out;
  EXPECT_EQ(Run("generate m --file text --threads 1").out, expected);
  EXPECT_EQ(Run("generate m", "text").out, expected);
}

TEST_F(GenerateCommand, SaysThatATextWithoutAPromptBeginsAfterTheEndToken) {
  WriteModel("m");
  const std::string note = "cosformer: the prompt is empty: the text begins after the end token\n";
  const std::string options = " --seed 1 --max-tokens 5 --ignore-end";
  const Outcome empty = Run("generate m --prompt ''" + options + " --save-session s");
  EXPECT_EQ(empty.code, 0);
  EXPECT_EQ(empty.err, note);
  const Outcome piped = Run("generate m" + options);
  EXPECT_EQ(piped.err, note);
  EXPECT_EQ(piped.out, empty.out);
  EXPECT_EQ(Run("generate m --session s --prompt ''" + options).err, "");
  EXPECT_FALSE(Contains(Run("generate m --chat --prompt ''" + options).err, note));
}

// Lines that do not come again.
size_t DistinctLines(const std::string& text) {
  const std::string lines = "\n" + text;
  size_t count = 0;
  for (size_t begin = 0; begin < lines.size() - 1;) {
    const size_t end = lines.find('\n', begin + 1);
    const std::string line = lines.substr(begin, end + 1 - begin);  // with the breaks around it
    if (lines.find(line, end) == std::string::npos) ++count;
    begin = end;
  }
  return count;
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_F(GenerateCommand, ChatsLineByLineWithMemoryAndUndo) {
  WriteModel("m", {{"max_length", 4096}});
  std::string errors;
  const auto chat = [&](const std::string& lines, int code = 0) {
    WriteText("lines", lines);
    // The likeliest tokens: every answer has another seed, also after /undo.
    const Outcome outcome =
        Run("generate m --chat --temperature 0 --max-tokens 6 --ignore-end --no-endless", "lines");
    EXPECT_EQ(outcome.code, code) << outcome.err;
    errors = outcome.err;
    return outcome.out;
  };
  const std::string one = chat("hello\n");
  EXPECT_FALSE(one.empty());
  // What was taken back leaves no trace, and a line that is wrong ends nothing, but is told.
  const std::string two = chat("hello\nagain\n");
  EXPECT_EQ(two.substr(0, one.size()), one);
  const std::string undone = chat("hello\nother\n/undo\n\xff\nagain\n", 1);
  EXPECT_EQ(undone.substr(undone.size() - (two.size() - one.size())), two.substr(one.size()));
  EXPECT_TRUE(Contains(errors, "UTF-8"));
  EXPECT_TRUE(Contains(errors, "1 of the lines had no answer"));
  // What made the text too long is taken back, and no more.
  const std::string flood(5000, 'a');
  const std::string emptied = chat("hello\n" + flood + "\nagain\n", 1);
  EXPECT_TRUE(Contains(errors, "the text has"));
  EXPECT_EQ(emptied.substr(emptied.size() - (two.size() - one.size())), two.substr(one.size()));
}

// The second answer is punished for what the first turn has, as it is after a session was saved.
TEST_F(GenerateCommand, AChatGoesOnAsASavedSessionDoes) {
  WriteModel("m", {{"max_length", 4096}});
  const std::string options =
      " --temperature 0 --max-tokens 40 --ignore-end --repetition-penalty 3 ";
  WriteText("lines", "hello\nother\n/undo\nagain\n");
  const Outcome chat = Run("generate m --chat --turn {}" + options, "lines");
  ASSERT_EQ(chat.code, 0) << chat.err;
  const Outcome first = Run("generate m --prompt hello --no-echo --save-session s" + options);
  const Outcome second = Run("generate m --prompt again --no-echo --session s" + options);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(chat.out.starts_with(first.out));
  EXPECT_TRUE(chat.out.ends_with(second.out));
}

TEST_F(GenerateCommand, AChatTellsItsSpeedAndTakesLinesThatBeginWithASlash) {
  WriteModel("m", {{"max_length", 4096}});
  const std::string options = "generate m --chat --temperature 0 --max-tokens 6 --ignore-end";
  WriteText("lines", "//hello\n");
  const Outcome outcome = Run(options + " --stats", "lines");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(outcome.err, "text      6 tokens in "));
  // What is made of the line has one slash.
  WriteText("slash", "hello\n");
  EXPECT_EQ(Run(options + " --turn '/{}'", "slash").out, outcome.out);
  WriteText("command", "/hello\n");
  EXPECT_TRUE(Contains(Run(options, "command").err, "/undo takes the last turn back"));
}

TEST_F(GenerateCommand, AChatWhoseTextCannotBeWrittenEnds) {
  WriteModel("m", {{"max_length", 4096}});
  WriteText("lines", "a\nb\n");
  const std::string full = "cd '" + folder_.string() +
                           "' && '" COSFORMER_COMMAND
                           "' generate m --chat <lines >/dev/full 2>.err";
  EXPECT_NE(std::system(full.c_str()), 0);
  EXPECT_EQ(ReadFile(folder_ / ".err"),
            "cosformer: the text could not be written to standard output\n");
}

TEST_F(GenerateCommand, AChatThatIsFullGoesBackToItsLastTurn) {
  WriteModel("m");  // for 96 tokens
  WriteText("lines", "hello\n" + std::string(60, 'a') + "\n" + std::string(5, 'b') +
                         "\n/undo\n/save after\n");
  const Outcome outcome =
      Run("generate m --chat --seed 1 --max-tokens 10 --ignore-end --no-endless", "lines");
  EXPECT_EQ(outcome.code, 0) << outcome.err;  // every line had an answer
  EXPECT_TRUE(Contains(outcome.err,
                       "as long as the model can read (96 tokens); /undo or /reset, or begin "
                       "without --no-endless\n"));
  const size_t said = outcome.err.find("saved after ");
  ASSERT_NE(said, std::string::npos) << outcome.err;
  // Two turns, with what the template adds to each line, and ten tokens each.
  EXPECT_NEAR(std::stoi(outcome.err.substr(said + 12)), 5 + 60 + 20, 4);
}

TEST_F(GenerateCommand, ALineThatFillsTheHorizonHasAnAnswer) {
  WriteModel("m");  // for 96 tokens
  WriteText("lines", std::string(96, 'a') + "\n");
  const std::string command =
      "generate m --chat --seed 1 --max-tokens 10 --ignore-end --no-endless";
  const Outcome full = Run(command, "lines");
  EXPECT_EQ(full.code, 0) << full.err;
  EXPECT_TRUE(Contains(full.err, "as long as the model can read (96 tokens)"));
  WriteText("lines", std::string(96, 'a') + "\nb\n");
  const Outcome more = Run(command, "lines");
  EXPECT_EQ(more.code, 1);
  EXPECT_TRUE(Contains(more.err, "1 of the lines had no answer"));
}

TEST_F(GenerateCommand, AChatGoesOnPastTheHorizonAndWithAnOldSessionAfterReset) {
  WriteModel("m");  // for 96 tokens
  const std::string command = "generate m --chat --seed 1 --max-tokens 10 --ignore-end ";
  WriteText("lines", Repeated(std::string(60, 'a') + "\n", 5) + "/undo\n/save after\n");
  const Outcome outcome = Run(command, "lines");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "saved after 280 tokens\n");
  ASSERT_EQ(Run("generate m --prompt abc --no-endless --max-tokens 3 --save-session old").code, 0);
  WriteText("lines", std::string(85, 'a') + "\n/reset\n" + std::string(200, 'a') + "\n");
  const Outcome old = Run(command + "--session old", "lines");
  EXPECT_EQ(old.code, 0) << old.err;
  EXPECT_TRUE(Contains(old.err, "as long as the model can read (96 tokens); /undo or /reset\n"));
}

TEST_F(GenerateCommand, AChatAnswersTheSameLineOtherwiseAfterUndo) {
  WriteModel("m", {{"max_length", 4096}});
  WriteText("lines", "hello\n/undo\nhello\n/undo\nhello\n");
  // Without line breaks, so that an answer is a line.
  const std::string command = "generate m --chat --max-tokens 24 --ignore-end --bias 10=-inf";
  const Outcome outcome = Run(command + " --seed 1", "lines");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(DistinctLines(outcome.out), 3u);
  EXPECT_EQ(Run(command + " --seed 1", "lines").out, outcome.out);
  EXPECT_EQ(DistinctLines(Run(command, "lines").out), 3u);
}

TEST_F(GenerateCommand, EveryAnswerOfALongChatHasItsOwnSeed) {
  WriteModel("m", {{"max_length", 4096}});
  WriteText("lines", Repeated("a\n", 40));
  // So hot that all tokens are alike whatever was said: equal seeds would give equal answers.
  const Outcome outcome = Run(
      "generate m --chat --seed 1 --temperature 1e6 --max-tokens 16 --ignore-end --bias 10=-inf",
      "lines");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(DistinctLines(outcome.out), 40u);
}

TEST_F(GenerateCommand, UndoGoesBackToTheOldestTurnKeptAndSaysSo) {
  WriteModel("m", {{"max_length", 4096}});
  const std::string command = "generate m --chat --seed 1 --max-tokens 6 --ignore-end";
  const auto told = [&](int undone) {
    WriteText("lines", Repeated("a\n", 40) + Repeated("/undo\n", undone) + "/save after\n");
    return Run(command, "lines").err;
  };
  // A turn is a byte and six tokens; 32 of the 40 can be taken back.
  EXPECT_EQ(told(31), "saved after 63 tokens\n");
  EXPECT_EQ(told(32), "saved after 56 tokens\n");
  const std::string earlier = told(33);
  EXPECT_TRUE(Contains(earlier, "nothing earlier is kept"));
  EXPECT_TRUE(Contains(earlier, "saved after 56 tokens\n"));
}

TEST_F(GenerateCommand, ALineWhoseAnswerFailsLeavesTheChatAsItWas) {
  WriteModel("m");
  std::string command = "generate m --chat --prompt abc";
  for (int token = 0; token < 260; ++token) command += " --bias " + std::to_string(token) + "=-inf";
  WriteText("lines", "hello\n/save after\n");
  const Outcome outcome = Run(command, "lines");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(Contains(outcome.err, "1 of the lines had no answer"));
  EXPECT_TRUE(Contains(outcome.err, "saved after 3 tokens\n"));
}

TEST_F(GenerateCommand, RefusesWithASentence) {
  WriteModel("m");
  WriteClassifier("classes");

  ExpectRefusal("generate nowhere --prompt a", "\"nowhere\" does not exist");
  ExpectRefusal("generate m --prompt \"$(printf '\\377')\"", "no UTF-8: byte 0 (0xff)");
  ExpectRefusal("generate m --prompt-tokens 1,260", "token 260 is not in the model's vocabulary");
  ExpectRefusal("generate m --prompt a --file b", "give one of");
  ExpectRefusal("generate m --file b", "b");
  ExpectRefusal("generate m --prompt a --threads 100000", "--threads is 100000");
  ExpectRefusal("generate m --prompt a --beams 2 --top-k 4", "--beams does not go with --top-k");
  ExpectRefusal("generate m --prompt a --beams 2 --save-session s", "--save-session");
  ExpectRefusal("generate m --chat --json x.json", "--chat does not go with --json");
  ExpectRefusal("generate m --chat --no-echo", "--chat does not go with --no-echo");
  ExpectRefusal("generate m --prompt a --bias 3", "--bias takes TOKEN=VALUE");
  for (const std::string number : {"-1", "18446744073709551616", "1e3", "''"}) {
    ExpectRefusal("generate m --prompt a --seed " + number, "is no whole number from 0");
  }
  ExpectRefusal("generate m --prompt a --top-k 99999999999999999999", "is no whole number");
  ExpectRefusal("generate m --prompt a --beams -1", "--beams is -1");
  ExpectRefusal("generate m --prompt a --turn '{}'", "--turn is for --chat");
  ExpectRefusal("generate m --chat --turn line", "put {} there");
  ExpectRefusal("generate m --prompt a --length-penalty 2", "--length-penalty is for --beams");
  ExpectRefusal("generate m --prompt a --likeliest 2", "--likeliest is for --json");
  ExpectRefusal("generate m --prompt a --session ''", "--session is empty");
  WriteModel("learned", {{"positions", "learned"}});
  ExpectRefusal("generate learned --prompt a --endless", "--endless is not for this model");
  ExpectRefusal("generate m --prompt a --temperature -1", "temperature");
  ExpectRefusal("generate m --prompt a --max-tokens -1", "max_tokens is -1");
  ExpectRefusal("generate m --prompt a --bias 99999=1",
                "--bias is given for token 99999, and the model's vocabulary has 260, 0 to 259");
  ExpectRefusal("generate classes --prompt a", "cosformer score");
  ExpectRefusal("generate m --prompt a --json /nowhere/x.json", "/nowhere/x.json");
  ExpectRefusal("generate m --prompt a --save-session /nowhere/s", "/nowhere/s");
  WriteText("long.txt", std::string(1000000, 'a'));
  ExpectRefusal("generate m --file long.txt --no-endless",
                "the text has 1000000 tokens, and the horizon");
}

TEST_F(GenerateCommand, RefusesModelsThatDoNotFit) {
  WriteModel("m");
  const auto changed = [&](const char* key, const json& value) {
    WriteModel("bad");
    json config = json::parse(ReadFile(folder_ / "bad" / "config.json"));
    config[key] = value;
    std::ofstream(folder_ / "bad" / "config.json") << config.dump();
  };
  changed("attention", "performer");
  ExpectRefusal("generate bad --prompt a", "layer 0 has the attention \"performer\"");
  changed("width", 32);
  ExpectRefusal("generate bad --prompt a", "has the shape");
  changed("vocabulary", 300);
  ExpectRefusal("generate bad --prompt a", "its tokenizer has 260 tokens");
  changed("layers", 3);
  ExpectRefusal("generate bad --prompt a", "it has no tensor");
  changed("layers", 1);
  ExpectRefusal("generate bad --prompt a", "which the config knows nothing of");
  // A NaN in the last tensor.
  WriteModel("bad");
  std::string bytes = ReadFile(folder_ / "bad" / "model.safetensors");
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\xff");
  std::ofstream(folder_ / "bad" / "model.safetensors", std::ios::binary) << bytes;
  ExpectRefusal("generate bad --prompt a", "infinite or NaN");
  std::ofstream(folder_ / "bad" / "model.safetensors", std::ios::binary)
      << bytes.substr(0, bytes.size() / 2);
  ExpectRefusal("generate bad --prompt a", "model.safetensors");
}

TEST_F(AttentionCommand, DrawsOneModelOrTwo) {
  WriteModel("a");
  WriteModel("b", {{"attention", "softmax"}});
  const Outcome outcome =
      Run("attention a b --prompt 'some text' --layer 1 --head 0 --distance d.svg --json map.json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(Contains(ReadFile(folder_ / "attention.svg"), "softmax"));
  EXPECT_TRUE(Contains(ReadFile(folder_ / "d.svg"), "distance in tokens"));
  const json maps = json::parse(ReadFile(folder_ / "map.json"))["maps"];
  ASSERT_EQ(maps.size(), 2u);
  const json& weights = maps[1]["weights"];
  ASSERT_EQ(weights.size(), 9u);
  double sum = 0;
  for (const json& weight : weights[8]) sum += weight.get<double>();
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_TRUE(weights[0][1].is_null());
  ASSERT_EQ(Run("attention a --prompt x --out m.png").code, 0);
  EXPECT_EQ(ReadFile(folder_ / "m.png").substr(1, 3), "PNG");
}

TEST_F(AttentionCommand, RefusesWithASentence) {
  WriteModel("a");
  ExpectRefusal("attention a", "either --prompt TEXT or --file FILE");
  ExpectRefusal("attention a --prompt x --layer 2", "layer 2 is asked for");
  ExpectRefusal("attention a --prompt x --head 4", "head 4 is asked for");
  ExpectRefusal("attention a --prompt x --head first", "--head takes a number");
  ExpectRefusal("attention a --prompt x --out m.jpg", "must end in .svg or .png");
  ExpectRefusal("attention a --prompt ''", "the text is empty");
}

TEST_F(AttentionCommand, ReadsMaskAsATokenWhereTheModelFillsItIn) {
  WriteModel("masked", {{"model", "encoder"}});
  WriteModel("decoder");
  const json masked = JsonOf("attention masked --prompt 'a <mask> b<mask>'")["maps"][0];
  EXPECT_EQ(masked["tokens"], json({'a', ' ', 259, ' ', 'b', 259}));
  EXPECT_EQ(masked["texts"][2], "<mask>");
  EXPECT_EQ(JsonOf("attention decoder --prompt '<mask>'")["maps"][0]["tokens"].size(), 6u);
}

TEST_F(AttentionCommand, SaysHowManyTokensOfALongTextCanBeDrawn) {
  WriteModel("horizon");  // for 96 tokens
  WriteModel("any", {{"attention", "softmax"}});
  WriteText("97", SomeText(97));
  WriteText("4097", SomeText(4097));
  ExpectRefusal("attention horizon --file 97",
                "the text has 97 tokens, and the horizon of its re-weighting is 96; give --tokens "
                "96 to draw the first\n");
  EXPECT_EQ(Run("attention horizon --file 97 --tokens 96").code, 0);
  ExpectRefusal("attention any --file 4097", "has at most 4096; give --tokens 4096");
}

TEST_F(AttentionCommand, SaysThatRotaryRowsOfLinearAttentionDoNotSumToOne) {
  WriteModel("rotary", {{"positions", "rotary"}, {"head_dim", 8}});
  const json map = JsonOf("attention rotary --prompt 'some text' --head 0")["maps"][0];
  double sum = 0;
  for (const json& weight : map["weights"][8]) sum += weight.get<double>();
  EXPECT_GT(std::abs(sum - 1), 1e-3);
  EXPECT_TRUE(Contains(Run("attention --help").out, "rows have other sums"));
}

}  // namespace
}  // namespace cosformer::testing
