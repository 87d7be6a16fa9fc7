# The flags that every target shares, and three short ways to declare one.
#
#   ig_folder(NAME files...)          one folder of src/, an object library
#   ig_test(FOLDER NAME [libs...])    tests/FOLDER/NAME.c, one ctest entry in its own process
#   ig_program(NAME files...)         a program that may include any ring (bench, fuzz)

set(IG_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wundef -Wvla -Wdouble-promotion -Wcast-qual)

add_library(ig_flags INTERFACE)
target_compile_options(ig_flags INTERFACE ${IG_WARNINGS} -ffp-contract=off -fno-math-errno
    $<$<BOOL:${IG_WERROR}>:-Werror>)
target_compile_definitions(ig_flags INTERFACE _GNU_SOURCE
    $<$<CONFIG:Debug>:IG_DEBUG=1>)
target_include_directories(ig_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
if(IG_SANITIZE)
    # a target with the property IG_PLAIN is compiled without
    set(plain $<BOOL:$<TARGET_PROPERTY:IG_PLAIN>>)
    target_compile_options(ig_flags INTERFACE
        $<$<NOT:${plain}>:-fsanitize=${IG_SANITIZE}> $<$<NOT:${plain}>:-fno-omit-frame-pointer>
        $<$<NOT:${plain}>:-fno-sanitize-recover=all>)
    target_link_options(ig_flags INTERFACE -fsanitize=${IG_SANITIZE})
endif()

# A test's time limit is against hanging, not for speed: on a machine with much else to do, and
# under sanitizers, a test may take a hundred times as long as alone.
set(IG_TEST_SECONDS 900)
if(IG_SANITIZE)
    set(IG_TEST_SECONDS 2700)
endif()

function(ig_folder name)
    add_library(ig_${name} OBJECT ${ARGN})
    target_link_libraries(ig_${name} PRIVATE ig_flags Threads::Threads)
    set_property(GLOBAL APPEND PROPERTY IG_FOLDERS ig_${name})
endfunction()

function(ig_program name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE ig_flags ingot_static)
endfunction()

function(ig_test folder name)
    add_executable(${name} ${CMAKE_SOURCE_DIR}/tests/${folder}/${name}.c)
    target_link_libraries(${name} PRIVATE ig_flags ingot_static PkgConfig::CMOCKA ${ARGN})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_compile_definitions(${name} PRIVATE
        IG_TEST_DATA="${CMAKE_SOURCE_DIR}/tests" IG_SHARED_DATA="${CMAKE_SOURCE_DIR}/../shared")
    add_test(NAME ${folder}/${name} COMMAND ${name})
    set_tests_properties(${folder}/${name} PROPERTIES TIMEOUT ${IG_TEST_SECONDS} LABELS "unit;${folder}")
endfunction()
