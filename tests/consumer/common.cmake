# What the scripts that install and build a consumer share: COMPILER's brother for C, and running a
# consumer, with the models of MODELS if it takes any.
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
set(C_COMPILER "")
if(EXISTS ${folder}/${name})
  set(C_COMPILER ${folder}/${name})
endif()

function(run_consumer consumer)
  if(NOT MODELS)
    run(${consumer})
    return()
  endif()

  run(${MODELS} ${WORK}/models)
  foreach(model IN ITEMS bytes pieces)
    execute_process(COMMAND ${consumer} ${WORK}/models/${model}
                    OUTPUT_FILE ${WORK}/printed.txt
                    COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
    run(${CMAKE_COMMAND} -E compare_files ${WORK}/printed.txt ${WORK}/models/${model}/expected.txt)
  endforeach()

  execute_process(COMMAND ${consumer} ${WORK}/models/none
                  RESULT_VARIABLE result ERROR_VARIABLE sentence)
  if(NOT result EQUAL 1 OR NOT sentence MATCHES "models/none\" does not exist; give a model's directory")
    message(FATAL_ERROR "a model that is not there gave ${result}: ${sentence}")
  endif()
endfunction()
