"""Figures for papers: the only room that draws with matplotlib (extra ``figures``), when it is used.

``series`` makes numbers of records, ``lines`` and ``mechanism`` draw numbers, ``page`` is the paper
they are drawn on and the files they become. The leaderboard draws its own: its pages are built
without matplotlib and follow the reader's colour scheme, which no saved figure can.
"""
