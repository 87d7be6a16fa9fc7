#!/bin/sh
# run_blas.sh SHIM LETTER: the level-3 BLAS test program of one precision (s or d) over the shim, for
# every instruction set here and for plans of one and of many threads. 77: the programs are absent.
set -eu
shim=$1
letter=$2
program=
for folder in /usr/lib/*/blas; do
    [ -x "$folder/xblat3$letter" ] && program=$folder/xblat3$letter
done
if [ -z "$program" ]; then
    echo "skipped: no xblat3$letter (package libblas-test)"
    exit 77
fi
upper=$(echo "$letter" | tr sd SD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >input <<END
'summary'         NAME OF SUMMARY OUTPUT FILE
6                 UNIT NUMBER OF SUMMARY FILE
'snapshot'        NAME OF SNAPSHOT OUTPUT FILE
-1                UNIT NUMBER OF SNAPSHOT FILE (NOT USED IF .LT. 0)
F                 REWIND SNAPSHOT FILE AFTER EACH RECORD
F                 STOP ON FAILURES
T                 TEST ERROR EXITS
16.0              THRESHOLD VALUE OF TEST RATIO
6                 NUMBER OF VALUES OF N
0 1 5 13 33 65
3                 NUMBER OF VALUES OF ALPHA
0.0 1.0 -0.7
3                 NUMBER OF VALUES OF BETA
0.0 1.0 1.3
${upper}GEMM  T
${upper}SYMM  F
${upper}TRMM  F
${upper}TRSM  F
${upper}SYRK  F
${upper}SYR2K F
END
status=0
for isa in ref avx2 avx512; do
    for threads in 1 16; do
        rm -f summary
        if ! IG_BLAS_ISA=$isa IG_BLAS_THREADS=$threads LD_PRELOAD=$shim "$program" \
            <input >output 2>errors; then
            grep -q 'no such instruction set' errors && continue
        fi
        cat summary >>output
        # the error exits and the computational tests, and no word of failure
        if grep -q "${upper}GEMM  PASSED THE TESTS OF ERROR-EXITS" output &&
            grep -q "${upper}GEMM  PASSED THE COMPUTATIONAL TESTS" output &&
            ! grep -qi 'fail\|suspect\|fatal' output && grep -q '[1-9][0-9]* calls' errors; then
            echo "$isa, planned for $threads: passed, $(sed -n 's/.*shim: //p' errors)"
        else
            echo "$isa, planned for $threads: failed"
            cat output errors
            status=1
        fi
    done
done
exit $status
