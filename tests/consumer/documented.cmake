# What docs/runtime.md shows of the programs must be all of them, from their first include on.
file(READ ${SOURCE}/docs/runtime.md page)
foreach(program IN ITEMS runtime_program/main.cc c_program/main.c)
  file(READ ${SOURCE}/tests/consumer/${program} text)
  string(FIND "${text}" "#include" begin)
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${page}" "${text}```" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "docs/runtime.md does not show tests/consumer/${program} as it is; copy it "
                        "there, from its first #include on")
  endif()
endforeach()
