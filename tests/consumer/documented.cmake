# What README.md and docs/runtime.md show of the programs must be all of them, from their first include
# on.
function(expect_shown page program)
  file(READ ${SOURCE}/${page} shown)
  file(READ ${SOURCE}/tests/consumer/${program} text)
  string(FIND "${text}" "#include" begin)
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${shown}" "${text}```" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${page} does not show tests/consumer/${program} as it is; copy it "
                        "there, from its first #include on")
  endif()
endfunction()

expect_shown(README.md runtime_program/main.cc)
expect_shown(docs/runtime.md runtime_program/main.cc)
expect_shown(docs/runtime.md c_program/main.c)
