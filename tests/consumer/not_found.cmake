# Installs this build to a temporary prefix; a find_package(cosformer) that can't succeed says why.
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix
                COMMAND_ERROR_IS_FATAL ANY)

function(expect_refusal name languages components sentence)
  file(WRITE ${WORK}/${name}/CMakeLists.txt
       "cmake_minimum_required(VERSION 3.25)\n"
       "project(consumer LANGUAGES ${languages})\n"
       "find_package(cosformer CONFIG REQUIRED ${components})\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK}/${name} -B ${WORK}/${name}/build
                          -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
                  RESULT_VARIABLE result ERROR_VARIABLE said)
  # CMake breaks lines where it likes.
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  string(FIND "${said}" "${sentence}" at)
  if(result EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "${name}: expected \"${sentence}\"; it gave ${result}: ${said}")
  endif()
endfunction()

expect_refusal(c_alone C "" "enable the language CXX")
expect_refusal(unknown CXX "COMPONENTS runtme"
               "cosformer has no component \"runtme\"; it has attention, runtime, torch")
