from browser.test_lab import *
def test_tmp(opened, page):
    book, _ = opened(WIDE)
    book.run(2)
    wide = book.panel(2)
    wide.root.screenshot(path="/tmp/shot4.png")
    print(middles(wide))
