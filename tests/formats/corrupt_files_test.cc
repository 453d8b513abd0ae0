// A table of corrupt files for each format, made by hand. Every one of them is refused with the
// sentence beside it, and costs no more memory than an honest file of its size may: what a file
// claims to hold is never set aside before it is there.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "corrupt_files.h"
#include "cosformer/attention.h"
#include "formats/config.h"
#include "formats/model_weights.h"
#include "formats/safetensors.h"
#include "formats/task_card.h"
#include "formats/tokenizer.h"
#include "raw_file.h"
#include "raw_model.h"
#include "vouched.h"

namespace cosformer {
namespace {

using namespace testing;

// What is no JSON, or not the JSON that anyone meant, whichever file it is in.
std::vector<Corrupt> BrokenJson() {
  return {
      {"an empty file", "", "FILE is empty; expected a JSON object"},
      {"cut in a text", R"({"format": 1, "ta)", "FILE is not valid JSON: line 1, column 17: "},
      {"cut after a key", R"({"format":)", "unexpected end of input"},
      {"not UTF-8", "{\"format\": \"\xC3\x28\"}", "ill-formed UTF-8"},
      {"half a surrogate", R"({"format": "\ud800"})", "FILE is not valid JSON: line 1, column 19"},
      {"a list", "[]", "FILE is a list of 0; expected an object, {\"key\": value, ...}"},
      {"a key that stands twice", R"({"format": 1, "format": 1})",
       "FILE: the key \"format\" stands twice in one object; remove one of them"},
      {"a long key that stands twice",
       "{\"" + std::string(50000, 'k') + "\": 1, \"" + std::string(50000, 'k') + "\": 1}",
       "kkk...\" stands twice in one object"},
      {"100,000 lists in each other", std::string(100'000, '['),
       "FILE nests lists and objects more than 64 deep: is it the right file?"},
      {"100,000 objects in each other", Repeated(R"({"a":)", 100'000), "more than 64 deep"},
      {"a format of text", R"({"format": "1", "kind": "bytes"})",
       "FILE: \"format\" is the text \"1\"; expected an integer of at least 1"},
      {"format 0", R"({"format": 0, "kind": "bytes"})",
       "FILE: \"format\" is 0; expected an integer of at least 1"},
      {"a later format", R"({"format": 2, "kind": "bytes"})",
       "FILE is of format 2, which a later version of cosformer wrote; this one reads up to 1: "
       "update cosformer"},
  };
}

// One tensor "a" of the given description, and 8 bytes of data.
std::string One(const std::string& description) {
  return RawFile("{\"a\":" + description + "}", "01234567");
}

std::string Two(const std::string& first_offsets, const std::string& second_offsets) {
  return RawFile(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first_offsets +
                     R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second_offsets + "}}",
                 "0123456789ab");
}

std::string WithMetadata(const std::string& metadata) {
  return RawFile("{\"__metadata__\":" + metadata + "}", "");
}

TEST_F(CorruptFilesTest, SafetensorsWhoseHeaderIsNoneAreRefused) {
  const Corrupt table[] = {
      {"an empty file", "", "cannot read FILE: the file is empty"},
      {"cut in the length", "1234567",
       "FILE has 7 bytes, fewer than the 8 that say how long the header is; is it cut off?"},
      {"cut behind the length", LengthBytes(2),
       "FILE claims a header of 2 bytes but only 0 follow; is it cut off?"},
      {"cut in the header", LengthBytes(100) + "{}",
       "FILE claims a header of 100 bytes but only 2 follow; is it cut off?"},
      {"a header above the limit", LengthBytes(100'000'001) + "{}",
       "FILE claims a header of 100000001 bytes; the format allows 100000000: it is no safetensors "
       "file"},
      {"a header of 2^60 bytes", LengthBytes(uint64_t{1} << 60) + "{}",
       "FILE claims a header of 1152921504606846976 bytes; the format allows 100000000: it is no "
       "safetensors file"},
      {"a header of 2^64 - 1 bytes", LengthBytes(UINT64_MAX) + "{}",
       "FILE claims a header of 18446744073709551615 bytes"},
      {"no header", LengthBytes(0),
       "the header of FILE does not begin with '{': it is no safetensors file"},
      {"a blank before", RawFile(" {}", ""), "the header of FILE does not begin with '{'"},
      {"a list", RawFile("[]", ""), "the header of FILE does not begin with '{'"},
      {"JSON that is cut", RawFile("{\"a\":", ""),
       "the header of FILE is not valid JSON: line 1, column 5: syntax error while parsing value - "
       "unexpected end of input; expected '[', '{', or a literal"},
      {"letters behind", RawFile("{} x", ""),
       "the header of FILE is not valid JSON: line 1, column 4: syntax error while parsing value - "
       "invalid literal"},
      {"zeros behind", RawFile(std::string("{}\0\0", 4), ""),
       "the header of FILE is not valid JSON: line 1, column 3: a zero byte"},
      {"not UTF-8", RawFile("{\"\xff\":1}", ""),
       "the header of FILE is not valid JSON: line 1, column 3: syntax error while parsing object "
       "key - invalid string: ill-formed UTF-8 byte"},
      {"100 lists in each other", RawFile("{\"a\":" + std::string(100, '['), ""),
       "the header of FILE nests lists and objects more than 64 deep: is it the right file?"},
      {"a name that stands twice",
       RawFile(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
               R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
               ""),
       "the header of FILE: the key \"a\" stands twice in one object; remove one of them"},
      {"metadata of a number", WithMetadata("3"),
       "FILE: __metadata__ is 3; expected an object of texts"},
      {"metadata of null", WithMetadata("null"),
       "FILE: __metadata__ is null; expected an object of texts"},
      {"a number in the metadata", WithMetadata(R"({"a":"b","epoch":3})"),
       "FILE: __metadata__ \"epoch\" is 3; expected a text"},
      {"an object in the metadata", WithMetadata(R"({"a":{"b":"c"}})"),
       "FILE: __metadata__ \"a\" is an object; expected a text"},
      {"a key twice in the metadata", WithMetadata(R"({"a":"b","a":"c"})"),
       "the header of FILE: the key \"a\" stands twice in one object; remove one of them"},
  };
  ExpectRefused("model.safetensors", SafetensorsFile::Open, table);
}

TEST_F(CorruptFilesTest, SafetensorsWhoseTensorsAreNoneAreRefused) {
  const std::string types =
      "expected one of BOOL, U8, I8, F8_E5M2, F8_E4M3, U16, I16, F16, BF16, U32, I32, F32, U64, "
      "I64, F64";
  const std::string most = "expected an integer from 0 to 9223372036854775807";
  const Corrupt table[] = {
      {"a number for a tensor", One("3"),
       "FILE: tensor \"a\" is 3; expected an object, {\"key\": value, ...}"},
      {"no dtype", One(R"({"shape":[2],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": the dtype is missing; " + types},
      {"an unknown dtype", One(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": the dtype is \"F31\"; " + types},
      {"a dtype of 50,000 letters",
       One("{\"dtype\":\"" + std::string(50000, 'F') + R"(","shape":[2],"data_offsets":[0,8]})"),
       "FFF...\"; " + types},
      {"a dtype of a number", One(R"({"dtype":32,"shape":[2],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"dtype\" is 32; expected a text in quotes"},
      {"no shape", One(R"({"dtype":"F32","data_offsets":[0,8]})"),
       "FILE: tensor \"a\": the key \"shape\" is missing"},
      {"a shape of a number", One(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"shape\" is 2; expected a list of integers"},
      {"a negative size", One(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"shape\" holds -2; " + most},
      {"a size with a point", One(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": \"shape\" holds 2.0; " + most},
      {"a size of 2^63", One(R"({"dtype":"F32","shape":[9223372036854775808]})"),
       "FILE: tensor \"a\": \"shape\" holds 9223372036854775808; " + most},
      {"2^64 elements",
       One(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})"),
       "FILE: tensor \"a\": the shape [4611686018427387904, 4] is too large for any file"},
      {"2^63 bytes", One(R"({"dtype":"F32","shape":[2305843009213693952],"data_offsets":[0,0]})"),
       "FILE: tensor \"a\": the shape [2305843009213693952] is too large for any file"},
      {"2^64 times nothing",
       One(R"({"dtype":"F32","shape":[4294967296,0,4294967296],"data_offsets":[0,0]})"),
       "FILE: tensor \"a\": the shape [4294967296, 0, 4294967296] is too large for any file"},
      {"100,000 dimensions",
       One(R"({"dtype":"U8","shape":[1)" + Repeated(",1", 100'000) + R"(],"data_offsets":[0,8]})"),
       "1, 1, 1, ...] takes 1 bytes, but \"data_offsets\" [0, 8] hold 8"},
      {"a shape that is too large", One(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": F32 of shape [3] takes 12 bytes, but \"data_offsets\" [0, 8] hold 8"},
      {"a shape that is too small", One(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": F32 of shape [1] takes 4 bytes, but \"data_offsets\" [0, 8] hold 8"},
      {"a scalar of two", One(R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})"),
       "FILE: tensor \"a\": F32 of shape [] takes 4 bytes, but \"data_offsets\" [0, 8] hold 8"},
      {"no offsets", One(R"({"dtype":"F32","shape":[2]})"),
       "FILE: tensor \"a\": the key \"data_offsets\" is missing"},
      {"one offset", One(R"({"dtype":"F32","shape":[2],"data_offsets":[8]})"),
       "FILE: tensor \"a\": \"data_offsets\" is a list of 1; expected [begin, end]"},
      {"three offsets", One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})"),
       "FILE: tensor \"a\": \"data_offsets\" is a list of 3; expected [begin, end]"},
      {"a negative offset", One(R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})"),
       "FILE: tensor \"a\": \"data_offsets\" holds -8; " + most},
      {"an end before the beginning", One(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
       "FILE: tensor \"a\": \"data_offsets\" [8, 0] end before they begin"},
      {"data that is cut", One(R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})"),
       "FILE: tensor \"a\": the data ends at 12 but the file holds 8 bytes of data; is it cut "
       "off?"},
      {"nothing, at 2^63 - 1",
       One(R"({"dtype":"U8","shape":[0],"data_offsets":[9223372036854775807,9223372036854775807]})"),
       "FILE: tensor \"a\": the data ends at 9223372036854775807 but the file holds 8 bytes of "
       "data; is it cut off?"},
      {"an unknown key", One(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1]})"),
       "FILE: tensor \"a\": unknown key \"strides\"; expected only \"dtype\", \"shape\", "
       "\"data_offsets\""},
      {"a name of 50,000 letters", RawFile("{\"" + std::string(50000, 'n') + "\":3}", ""),
       "nnn...\" is 3; expected an object"},
      {"data of no tensor", RawFile("{}", "x"),
       "FILE has 1 bytes of data, but its tensors end at 0: 1 trailing bytes"},
      {"data behind the tensors", One(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
       "FILE has 8 bytes of data, but its tensors end at 4: 4 trailing bytes"},
      {"a hole before", One(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
       "FILE: tensor \"a\" begins at 4 but the one before ends at 0: there is a hole between them"},
      {"a hole between", Two("[0,4]", "[8,12]"),
       "FILE: tensor \"b\" begins at 8 but the one before ends at 4: there is a hole between them"},
      {"a hole and an overlap", Two("[8,12]", "[6,10]"),
       "FILE: tensor \"b\" begins at 6 but the one before ends at 0: there is a hole between them"},
      {"an overlap", Two("[2,6]", "[0,4]"),
       "FILE: tensor \"a\" begins at 2 but the one before ends at 4: they overlap"},
      {"two in one place", Two("[0,4]", "[0,4]"),
       "FILE: tensor \"b\" begins at 0 but the one before ends at 4: they overlap"},
  };
  ExpectRefused("model.safetensors", SafetensorsFile::Open, table);
}

TEST_F(CorruptFilesTest, ConfigsThatAreNoneAreRefused) {
  ExpectRefused("config.json", ReadConfig, BrokenJson());
  const Corrupt table[] = {
      {"the kind of another file", R"({"format": 1, "kind": "bytes"})",
       "FILE: unknown key \"kind\"; expected only \"format\", \"model\", "},
      {"2^63 tokens", R"({"vocabulary": 9223372036854775808})",
       "FILE: \"vocabulary\" is 9223372036854775808; expected an integer from 0 to 16777216"},
      {"a width of null", R"({"width": null})",
       "FILE: \"width\" is null; expected an integer from 1 to 65536"},
      {"100,000 attentions for a layer",
       R"({"vocabulary": 9, "layers": 1, "attention": ["a")" + Repeated(",\"a\"", 100'000) + "]}",
       "FILE: attention is a list of 100001 but the model has 1 layers"},
      // One object would become 1,024, each with all of its options.
      {"300 KB of options for each of 1,024 layers",
       R"({"vocabulary": 9, "layers": 1024, "attention": {"system": "a", "b": [0)" +
           Repeated(",0", 150'000) + "]}}",
       "FILE: the options of the attention of layer 0 take 300009 bytes; expected at most 4096: "
       "shorten them"},
  };
  ExpectRefused("config.json", ReadConfig, table);
}

TEST_F(CorruptFilesTest, ChecksumsThatAreNoneAreRefused) {
  WriteSafetensors(Path("model.safetensors"), {});
  const Reader read = [this](const std::string&) { OpenModelWeights(folder_.string()); };
  ExpectRefused("checksums.json", read, BrokenJson());
  const std::string advice =
      " (copy it again with the model, or remove it to read the weights unchecked)";
  const Corrupt table[] = {
      {"cut", R"({"format": 1, "tensors": {"a": "F32 [2] 0123)", "FILE is not valid JSON"},
      {"cut, with what to do", R"({"format": 1, "tensors": {"a": "F32 [2] 0123)", advice},
      {"no tensors", R"({"format": 1})",
       "FILE: \"tensors\" is missing; expected an object with a text per tensor" + advice},
      {"tensors of a list", R"({"format": 1, "tensors": ["a"]})",
       "FILE: \"tensors\" is a list of 1; expected an object with a text per tensor"},
      {"a checksum of a number", R"({"format": 1, "tensors": {"a": 5}})",
       "FILE: \"a\" is 5; expected a text with type, shape and checksum"},
      {"a checksum that stands twice", R"({"format": 1, "tensors": {"a": "", "a": ""}})",
       "FILE: the key \"a\" stands twice in one object"},
      {"an unknown key", R"({"format": 1, "tensor": {}, "tensors": {}})",
       "FILE: unknown key \"tensor\" (did you mean \"tensors\"?)"},
      {"100,000 tensors of another model",
       R"({"tensors": {"a": [)" + Repeated("1,", 100'000) + "1]}}",
       "FILE: \"a\" is a list of 100001; expected a text with type, shape and checksum"},
      {"larger than any", std::string((16 << 20) + 1, ' '), "FILE is larger than 16 MB"},
  };
  ExpectRefused("checksums.json", read, table);
}

TEST_F(CorruptFilesTest, TaskCardsThatAreNoneAreRefused) {
  const Reader read = [this](const std::string&) { ReadTaskCard(folder_.string()); };
  ExpectRefused("task.json", read, BrokenJson());
  const Corrupt table[] = {
      {"a task of a number", R"({"format": 1, "task": 3})",
       "FILE: \"task\" is 3; expected a text in quotes"},
      {"no task", R"({"format": 1, "pairs": true})",
       "FILE: \"task\" is missing or empty; expected the name of a task, as \"lm\""},
      {"pairs of a number", R"({"task": "classify", "pairs": 1})",
       "FILE: \"pairs\" is 1; expected true or false"},
      {"labels of a text", R"({"task": "classify", "labels": "positive"})",
       "FILE: \"labels\" is the text \"positive\"; expected a list of names"},
      {"labels of null", R"({"task": "classify", "labels": null})",
       "FILE: \"labels\" is null; expected a list of names"},
      {"a label of a number", R"({"task": "classify", "labels": ["negative", 1]})",
       "FILE: \"labels\" holds 1; expected names"},
      {"an unknown key", R"({"task": "classify", "lables": []})",
       "FILE: unknown key \"lables\" (did you mean \"labels\"?); expected only \"format\", "
       "\"task\", \"pairs\", \"tokenizer\", \"labels\""},
      {"a tokenizer of a number", R"({"task": "classify", "tokenizer": 5})",
       "FILE: \"tokenizer\" is 5; expected a text in quotes"},
  };
  ExpectRefused("task.json", read, table);
}

TEST_F(CorruptFilesTest, TokenizersOfJsonThatAreNoneAreRefused) {
  ExpectRefused("tokenizer.json", Tokenizer::Load, BrokenJson());
  const auto words = [](const std::string& list) {
    return R"({"format": 1, "kind": "words", "words": )" + list + "}";
  };
  const Corrupt table[] = {
      {"no format", R"({"kind": "bytes"})", "FILE: \"format\" is missing"},
      {"no kind", R"({"format": 1})", "FILE: \"kind\" is missing"},
      {"an unknown kind", R"({"format": 1, "kind": "letters"})",
       "FILE: \"kind\" is the text \"letters\"; expected one of \"bytes\", \"words\""},
      {"a kind of a number", R"({"format": 1, "kind": 3})", "FILE: \"kind\" is 3; expected"},
      {"a kind that has another file", R"({"format": 1, "kind": "sentencepiece"})",
       "FILE: \"kind\" is the text \"sentencepiece\"; expected one of \"bytes\", \"words\""},
      {"bytes with words", R"({"format": 1, "kind": "bytes", "words": ["a"]})",
       "FILE: unknown key \"words\"; expected only \"format\", \"kind\""},
      {"no words", R"({"format": 1, "kind": "words"})", "FILE: \"words\" is missing"},
      {"an unknown key", R"({"format": 1, "kind": "words", "words": ["a"], "lower": true})",
       "FILE: unknown key \"lower\""},
      {"an object of words", words(R"({"a": 1})"),
       "FILE: \"words\" is an object; expected a list of words"},
      {"a text for words", words("\"a\""), "FILE: \"words\" is the text \"a\"; expected a list"},
      {"null for words", words("null"), "FILE: \"words\" is null; expected a list of words"},
      {"an empty list", words("[]"), "FILE: the vocabulary has no words"},
      {"a number among the words", words("[\"a\", 2]"),
       "FILE: word 2 of the vocabulary is 2; expected a text"},
      {"an empty word", words(R"(["a", ""])"),
       "FILE: word 2 of the vocabulary, \"\", is empty; remove it"},
      {"two words in one", words("[\"a b\"]"),
       "FILE: word 1 of the vocabulary, \"a b\", has a blank in it"},
      {"a long word with a blank", words("[\"" + std::string(50000, 'w') + " \"]"),
       "www...\", has a blank in it"},
      {"a word that stands twice", words(R"(["b", "a", "b"])"),
       "FILE: the word \"b\" stands twice in the vocabulary; remove one of them"},
  };
  ExpectRefused("tokenizer.json", Tokenizer::Load, table);
}

TEST_F(CorruptFilesTest, TokenizersOfSentencePieceThatAreNoneAreRefused) {
  const std::string no = "FILE is no SentencePiece model: ";
  const std::string unusable = "FILE is no SentencePiece model that can be used: ";
  const std::string ends = "; copy the file again, or train a new tokenizer";
  const std::string rest = TrainerField("") + NormaliserField("");
  const auto table_of = [&](const std::string& bytes) {
    return RawPieces() + TrainerField("") + NormaliserField(BytesField(2, bytes));
  };
  const auto units = [&](size_t at, uint32_t unit) {
    std::string changed = RawTable();
    std::memcpy(changed.data() + 4 * (1 + at), &unit, sizeof(unit));
    return table_of(changed);
  };
  const std::string good = RawModel();
  const Corrupt table[] = {
      {"an empty file", "", no + "it is empty" + ends},
      {"a text", "hello, world", no + "it holds a field of an unknown kind" + ends},
      {"zeros", std::string(100, '\0'), no + "its second half is missing" + ends},
      {"cut in a piece", good.substr(0, 20), no + "it is cut off, or something else altogether"},
      {"cut between the pieces and the rest", RawPieces(), no + "its second half is missing"},
      {"a field of 2^60 bytes", good + Varint(1 << 3 | 2) + Varint(uint64_t{1} << 60),
       no + "it is cut off"},
      {"a number of more than 64 bits", std::string(11, '\xFF'),
       no + "it holds a number of more than 64 bits"},
      {"a group, which no model has", good + "\x0B", no + "it holds a field of an unknown kind"},
      {"a table without units", table_of(std::string(4, '\0')),
       no + "its normalisation table is broken"},
      {"a table of 2^32 - 4 units", table_of("\xFC\xFF\xFF\xFF" + RawTable().substr(4)),
       no + "its normalisation table is broken"},
      {"a table that is cut", table_of(RawTable().substr(0, 500)),
       no + "its normalisation table is broken"},
      {"a step out of the table", units(0, 256 << 10), no + "its normalisation table is broken"},
      {"a far step out of the table", units(0, 1 << 10 | 1 << 9),
       no + "its normalisation table is broken"},
      {"a leaf out of the table's text", units(44, uint32_t{1} << 31 | 2),
       no + "its normalisation table is broken"},
      {"a root that is a leaf", units(0, uint32_t{1} << 31),
       no + "its normalisation table is broken"},
      // Every further A is one more match, and the library has room for 32.
      {"a table whose ways go round", units('A', 'A' << 10 | 1 << 8 | 'A'),
       no + "its normalisation table is broken"},
      {"a table of 33 rules that begin with each other", table_of(TableOfRuns(33)),
       no + "its normalisation table is broken"},
      {"a table larger than any", table_of(RawTable() + std::string(8 << 20, 'a')),
       no + "its normalisation table is broken"},
      {"65 user-defined pieces that begin with each other",
       RawPieces() + UserDefinedRuns(65) + rest,
       no + "more than 64 user-defined pieces begin with each other" + ends},
      {"no pieces", rest, unusable},
      {"no unknown piece", PieceField("a") + rest, unusable + "unk is not defined" + ends},
      {"two unknown pieces", RawPieces() + PieceField("<u>", kUnknown) + rest,
       unusable + "unk is already defined" + ends},
      {"a piece that stands twice", RawPieces() + PieceField("a") + rest,
       unusable + "a is already defined" + ends},
      {"a long piece that stands twice",
       RawPieces() + Repeated(PieceField(std::string(50000, 'p')), 2) + rest, "ppp..." + ends},
      {"an empty piece", RawPieces() + PieceField("") + rest, unusable},
      {"a piece that is a zero byte", RawPieces() + PieceField(std::string(1, '\0')) + rest,
       unusable},
      {"the same twice", RawPieces() + Repeated(PieceField(std::string(1, '\0')), 2) + rest,
       unusable + "the library gives no reason" + ends},
      {"a piece that is no UTF-8, twice", RawPieces() + Repeated(PieceField("\xFF\n"), 2) + rest,
       unusable + "\\xff\\x0a is already defined" + ends},
      {"an unknown piece of another name", PieceField("<u>", kUnknown) + PieceField("<unk>") + rest,
       unusable + "it has no piece for the end of a line, none for the end of a text, and none by "
                  "the name of its unknown piece; train a new tokenizer"},
      {"bytes of which one is missing",
       good + PieceField("<0x00>", kByte) + TrainerField(NumberField(35, 1)), unusable},
      {"a byte that is none", good + PieceField("<0xZZ>", kByte) + TrainerField(NumberField(35, 1)),
       unusable + "byte piece <0xZZ> is invalid" + ends},
      {"bytes that the trainer knows nothing of", good + PieceField("<0x00>", kByte), unusable},
  };
  ASSERT_NO_THROW(Tokenizer::SentencePiece(good));
  for (const std::string& largest : {table_of(RawTable()), table_of(TableOfRuns(32)),
                                     RawPieces() + UserDefinedRuns(64) + rest}) {
    ASSERT_NO_THROW(Tokenizer::SentencePiece(largest).Encode(std::string(200, 'A')));
  }
  ExpectRefused("tokenizer.model", Tokenizer::Load, table);
}

// Where the fields of a state stand, and the numbers behind them.
enum StateOffset {
  kVersion = 8,
  kBatch = 12,
  kHeads = 20,
  kDim = 28,
  kValueDim = 36,
  kFeatureMap = 44,
  kReweighting,
  kNormaliser,
  kEndless,
  kHasFirst,
  kLeakySlope,
  kEpsilon = 53,
  kHorizon = 57,
  kPosition = 65,
  kFirstBegin = 73,
  kSecondBegin = 81,
  kNumbers = 89
};

std::string StateBytes(bool endless) {
  LinearStateConfig config{1, 2, 2, 3, {}, endless};
  config.kernel.horizon = 32;
  std::ostringstream out(std::ios::binary);
  LinearState(config).Save(out);
  return out.str();
}

struct StateChange {
  StateOffset at;
  int64_t value;
  size_t bytes = 8;
};

std::string With(std::string state, std::initializer_list<StateChange> changes) {
  for (const auto& [at, value, bytes] : changes) std::memcpy(state.data() + at, &value, bytes);
  return Vouched(state);
}

TEST_F(CorruptFilesTest, StatesThatAreNoneAreRefused) {
  const std::string good = StateBytes(false), endless = StateBytes(true);
  const int64_t most = INT64_MAX, far = int64_t{1} << 60;
  const Corrupt table[] = {
      {"an empty file", "", "the file is truncated: it ends 0 bytes into magic, which has 8"},
      {"a text", "This is not the file that you are looking for.\n", "this is not a state file"},
      {"another magic", "CSFSTATF" + good.substr(8), "it does not begin with \"CSFSTATE\""},
      {"the magic alone", good.substr(0, 8), "it ends 0 bytes into version, which has 4"},
      {"a later version", With(good, {{kVersion, 4, 4}}),
       "the file has version 4; this program reads versions up to 3"},
      {"a version with a field more", With(good, {{kVersion, 3, 4}}), "the file's has_first is"},
      {"version 0", With(good, {{kVersion, 0, 4}}), "the file has version 0"},
      {"cut in the header", good.substr(0, kHorizon + 3), "it ends 3 bytes into horizon"},
      {"the header alone", good.substr(0, kNumbers), "it ends 0 bytes into the numbers"},
      {"one number missing", Vouched(good.substr(0, good.size() - 4)), "truncated"},
      {"no checksum", good.substr(0, good.size() - 4), "it ends 0 bytes into checksum"},
      {"another checksum", good.substr(0, good.size() - 4) + "abcd",
       "the file is damaged: its checksum is 1684234849"},
      {"no heads", With(good, {{kHeads, 0}}), "heads is 0, which is not between 1 and 1048576"},
      {"2^60 heads", With(good, {{kHeads, far}}), "heads is 1152921504606846976"},
      {"2^40 of batch and heads", With(good, {{kBatch, 1 << 20}, {kHeads, 1 << 20}}),
       "batch * heads is 1099511627776"},
      {"2^40 of dim and value_dim", With(good, {{kDim, 1 << 20}, {kValueDim, 1 << 20}}),
       "dim * value_dim is 1099511627776"},
      // 2^48 bytes are within what a state may be, but are not there.
      {"as many numbers as there can be",
       With(good, {{kHeads, 1 << 20}, {kDim, 1 << 13}, {kValueDim, 1 << 13}}),
       "bytes into the numbers"},
      {"an unknown feature map", With(good, {{kFeatureMap, 5, 1}}), "feature_map is 5"},
      {"an unknown re-weighting", With(good, {{kReweighting, 2, 1}}), "reweighting is 2"},
      {"an unknown normaliser", With(good, {{kNormaliser, 2, 1}}), "normaliser is 2"},
      {"endless as 2", With(good, {{kEndless, 2, 1}}), "endless is 2"},
      {"endless with one span", With(good, {{kEndless, 1, 1}}), "has_first is 0"},
      {"a slope of NaN", With(good, {{kLeakySlope, 0x7FC00000, 4}}), "leaky_slope is nan"},
      {"an epsilon of 0", With(good, {{kEpsilon, 0, 4}}), "epsilon is 0"},
      {"no horizon", With(good, {{kHorizon, 0}}), "horizon is 0"},
      {"a position past the horizon", With(good, {{kPosition, 33}}),
       "position is 33, which is not between 0 and 32"},
      {"a negative position", With(good, {{kPosition, -1}}), "position is -1"},
      {"a beginning past the position", With(good, {{kSecondBegin, 1}}), "second_begin is 1"},
      {"an endless horizon of 1", With(endless, {{kHorizon, 1}}), "horizon is 1"},
      {"an endless state that began between two halves",
       With(endless, {{kPosition, 20}, {kFirstBegin, 3}, {kSecondBegin, 19}}),
       "first_begin is 3, which is no multiple of 16, half its horizon"},
      {"an endless state that ends past 2^63",
       With(endless, {{kHorizon, most},
                      {kPosition, far},
                      {kFirstBegin, far},
                      {kSecondBegin, far + most / 2}}),
       "first_begin is 1152921504606846976, which is no multiple of 4611686018427387903"},
      {"an endless state that is past its end", With(endless, {{kPosition, 33}}),
       "position is 33, which is not between 0 and 32"},
  };
  ASSERT_EQ(With(good, {}), good);
  const Reader read = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    LinearState::Load(in);
  };
  ExpectRefused("state", read, table);
}

TEST_F(CorruptFilesTest, ADirectoryInTheFilesPlaceIsNamed) {
  const struct {
    const char* file;
    Reader read;
    const char* reason;
  } table[] = {
      {"model.safetensors", SafetensorsFile::Open, "it is a directory"},
      {"config.json", ReadConfig, "Is a directory"},
      {"task.json", [this](const std::string&) { ReadTaskCard(folder_.string()); },
       "Is a directory"},
      {"tokenizer.json", [this](const std::string&) { Tokenizer::Load(folder_.string()); },
       "Is a directory"},
      {"checksums.json", [this](const std::string&) { OpenModelWeights(folder_.string()); },
       "Is a directory"},
  };
  for (const auto& row : table) {
    std::filesystem::create_directory(Path(row.file));
    EXPECT_EQ(MessageOf([&] { row.read(Path(row.file)); }),
              "cannot read \"" + Path(row.file) + "\": " + row.reason);
  }
}

}  // namespace
}  // namespace cosformer
