"""Calibration without labels of the target: one published method a file.

How to add a method
-------------------
1. Write ``methods/name.py``. Its header names the paper, states the equation, says what the method
   supposes and where it departs from the paper; the code below reads like that page.
2. Read target and source with `temperance.data.given.read_both`, or a target alone with `as_rows`
   and `draw_rows`: all checks, file formats and the bound on memory come with them.
3. Return a map (`temperance.maps`), or an `Interval` for an estimate of the accuracy, which also
   needs a name in ``METHODS`` of ``calibrate/estimate_accuracy.py``. Raise `NotIdentified` where
   the data do not determine the answer.
4. The docstring has the equation, the parameters, a line "Guarantee:" and an example that runs.
5. Export the function in ``temperance/__init__.py`` and list it in ``docs/api/index.md``.
6. Test it in ``tests/methods/test_name.py`` by evidence that does not come from the code: a closed
   form, a peer, a simulation in which the supposition holds, and one in which it does not.
"""
