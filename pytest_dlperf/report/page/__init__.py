"""Pages of HTML: one file each, with everything they need in it.

A page is markup made by ``markup.py`` and ``table.py``, and charts that a ``figure.ChartBook``
places into it; ``whole.render_page`` puts style, script and the charting library around them.
"""
