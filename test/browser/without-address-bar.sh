#!/bin/sh
# Starts Chromium ($EAAS_TEST_CHROMIUM) without the two pages of its address bar, which it loads for each window, headless too: they took
# half of its CPU time. Chromium heeds only the last --disable-features, so they are added to Playwright's.
for argument; do
  shift
  case $argument in --disable-features=*) argument="$argument,WebUIOmniboxPopup,WebUIOmniboxAimPopup" ;; esac
  set -- "$@" "$argument"
done
exec "$EAAS_TEST_CHROMIUM" "$@"
