"""Pages of HTML: one file each, with everything they need in it.

A page is markup made by ``markup.py`` and ``table.py``, and charts: data of ``chart.py`` that
``svg.py`` draws. ``markup.render_page`` puts style and script around them.
"""
