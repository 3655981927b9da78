# Every case is a test: NAME.in goes in, NAME.out is to come out.
number=0 failed=0
for input in tests/cases/*.in; do
  number=$((number + 1)) name=$(basename "$input" .in)
  if ./total <"$input" | cmp -s - "${input%.in}.out"; then
    echo "ok $number - $name"
  else
    echo "not ok $number - $name"
    failed=1
  fi
done
echo "1..$number"
exit $failed
