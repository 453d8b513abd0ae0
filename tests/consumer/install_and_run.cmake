file(REMOVE_RECURSE ${WORK})
set(flags "")
if(SANITIZE)
  set(flags "-fsanitize=${SANITIZE}")
endif()

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The sanitizers of one compiler are not those of another: C by the brother of the C++ compiler.
get_filename_component(folder ${COMPILER} DIRECTORY)
get_filename_component(name ${COMPILER} NAME)
string(REPLACE "clang++" "clang" name ${name})
string(REPLACE "g++" "gcc" name ${name})
string(REPLACE "c++" "cc" name ${name})
set(c_compiler "")
if(EXISTS ${folder}/${name})
  set(c_compiler -DCMAKE_C_COMPILER=${folder}/${name})
endif()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${PROGRAM} -B ${WORK}/build -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${COMPILER} ${c_compiler} -DCMAKE_BUILD_TYPE=${BUILD_TYPE}
    -DCMAKE_CXX_FLAGS=${flags} -DCMAKE_C_FLAGS=${flags} -DCMAKE_PREFIX_PATH=${WORK}/prefix
    --no-warn-unused-cli)
run(${CMAKE_COMMAND} --build ${WORK}/build)
if(NOT MODELS)
  run(${WORK}/build/consumer)
  return()
endif()

run(${MODELS} ${WORK}/models)
foreach(model IN ITEMS bytes pieces)
  execute_process(COMMAND ${WORK}/build/consumer ${WORK}/models/${model}
                  OUTPUT_FILE ${WORK}/printed.txt
                  COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  run(${CMAKE_COMMAND} -E compare_files ${WORK}/printed.txt ${WORK}/models/${model}/expected.txt)
endforeach()

execute_process(COMMAND ${WORK}/build/consumer ${WORK}/models/none
                RESULT_VARIABLE result ERROR_VARIABLE sentence)
if(NOT result EQUAL 1 OR NOT sentence MATCHES "models/none\" does not exist; give a model's directory")
  message(FATAL_ERROR "a model that is not there gave ${result}: ${sentence}")
endif()
