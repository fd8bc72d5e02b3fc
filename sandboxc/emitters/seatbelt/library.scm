; ---- how places become rules: fixed text, the same in every profile ----
; A place is a list of names. A tree node is (name info child ...); a name whose case is folded is (key . name).
; info is (), a kind or (kind mark ...); sbx-kinds gives each kind a number for reading and one for writing. The
; higher number decides where two layers meet at one place; its remainder by 3 is the access: 0 write, 1 read, 2 deny.
; A number among the marks is a group of patterns.

(define (sbx-all a b) (if a (if b (require-all a b) #f) #f))
(define (sbx-any a b) (if a (if b (require-any a b) a) b))
(define (sbx-but a b) (if a (if b (require-all a (require-not b)) a) #f))
(define (sbx-any-of filters)            ; by eights, so that no form grows with the policy
  (if (null? filters)
      #f
      (let fold ((xs filters))
        (if (null? (cdr xs)) (car xs) (fold (sbx-by-eights xs (sbx-count xs 0) '()))))))
(define (sbx-by-eights xs n out)
  (if (> n 7)
      (sbx-by-eights
        (sbx-drop 8 xs) (- n 8)
        (cons (require-any (car xs) (sbx-nth 1 xs) (sbx-nth 2 xs) (sbx-nth 3 xs)
                           (sbx-nth 4 xs) (sbx-nth 5 xs) (sbx-nth 6 xs) (sbx-nth 7 xs))
              out))
      (if (null? xs)
          out
          (if (null? (cdr xs))
              (cons (car xs) out)
              (sbx-by-eights (cdr (cdr xs)) (- n 2) (cons (require-any (car xs) (car (cdr xs))) out))))))
(define (sbx-count xs n) (if (null? xs) n (sbx-count (cdr xs) (+ n 1))))
(define (sbx-drop n xs) (if (= n 0) xs (sbx-drop (- n 1) (cdr xs))))
(define (sbx-each f xs) (if (null? xs) #t (begin (f (car xs)) (sbx-each f (cdr xs)))))
(define (sbx-map f xs)
  (let loop ((xs xs) (out '())) (if (null? xs) (reverse out) (loop (cdr xs) (cons (f (car xs)) out)))))
(define (sbx-has? x xs) (if (null? xs) #f (if (eq? x (car xs)) #t (sbx-has? x (cdr xs)))))
(define (sbx-nth n xs) (if (= n 0) (car xs) (sbx-nth (- n 1) (cdr xs))))

; ---- texts ----

(define (sbx-code s i) (modulo (char->integer (string-ref s i)) 256))
(define (sbx-letter c) (make-string 1 (integer->char c)))
(define (sbx-lower s)
  (let loop ((i 0) (out ""))
    (if (= i (string-length s))
        out
        (let ((c (sbx-code s i)))
          (loop (+ i 1)
                (string-append out (if (and (> c 64) (< c 91)) (sbx-letter (+ c 32)) (substring s i (+ i 1)))))))))
(define (sbx-quote s)
  (let loop ((i 0) (out ""))
    (if (= i (string-length s))
        out
        (loop (+ i 1) (string-append out (sbx-quote-byte (sbx-code s i) (substring s i (+ i 1))))))))
(define (sbx-quote-byte c one)
  (if (or (= c 91) (= c 92) (= c 94))
      (string-append "\\" one)
      (if (or (= c 36) (and (> c 39) (< c 44)) (= c 46) (= c 63) (= c 93) (and (> c 122) (< c 126)))
          (string-append "[" one "]")
          (if (not sbx-fold)
              one
              (if (and (> c 64) (< c 91))
                  (string-append "[" (sbx-letter (+ c 32)) one "]")
                  (if (and (> c 96) (< c 123)) (string-append "[" one (sbx-letter (- c 32)) "]") one))))))
(define (sbx-points s)                  ; the code points of a UTF-8 text
  (let loop ((i (- (string-length s) 1)) (low 0) (scale 1) (out '()))
    (if (< i 0)
        out
        (let ((c (sbx-code s i)))
          (if (< c 128)
              (loop (- i 1) 0 1 (cons c out))
              (if (< c 192)
                  (loop (- i 1) (+ low (* scale (- c 128))) (* scale 64) out)
                  (loop (- i 1) 0 1
                        (cons (+ low (* scale (- c (if (< c 224) 192 (if (< c 240) 224 240))))) out))))))))

; ---- parameters ----

(define (sbx-part s start end out)
  (let ((name (substring s start end)))
    (if (or (= start end) (string=? name "."))
        out
        (if (string=? name "..") (error "a parameter holds .." s) (cons name out)))))
(define (sbx-split s)
  (let loop ((i (string-length s)) (end (string-length s)) (out '()))
    (if (= i 0)
        (sbx-part s 0 end out)
        (if (= (sbx-code s (- i 1)) 47)
            (loop (- i 1) (- i 1) (sbx-part s i end out))
            (loop (- i 1) end out)))))
(define (sbx-is? name names)
  (if (null? names) #f (if (string=? name (car names)) #t (sbx-is? name (cdr names)))))
(define (sbx-physical parts)            ; root links and the data volume
  (if (null? parts)
      parts
      (if (sbx-is? (car parts) '("tmp" "var" "etc"))
          (cons "private" parts)
          (if (string=? (car parts) "home")
              (cons "System" (cons "Volumes" (cons "Data" parts)))
              (sbx-off-volume parts '("System" "Volumes" "Data") parts)))))
(define (sbx-off-volume rest head parts)
  (if (null? rest)
      parts
      (if (null? head)
          (if (or (sbx-is? (car rest) sbx-firmlinks)
                  (and (string=? (car rest) "usr") (pair? (cdr rest)) (string=? (car (cdr rest)) "local")))
              rest
              parts)
          (if (string=? (car rest) (car head)) (sbx-off-volume (cdr rest) (cdr head) parts) parts))))
(define sbx-firmlinks '("Applications" "Library" "Users" "Volumes" "cores" "opt" "private"))
(define (sbx-root name required)        ; every spelling of a parameter's place, or #f
  (let ((value (param name)))
    (if (string? value)
        (if (and (> (string-length value) 0) (= (sbx-code value 0) 47))
            (let ((parts (sbx-split value)))
              (let ((physical (sbx-physical parts)))
                (if (eq? physical parts) (list parts) (list physical parts))))
            (error "a parameter is not an absolute path" name))
        (if required (error "a parameter is missing" name) #f))))
(define (sbx-join names)
  (if (null? names)
      "/"
      (let loop ((xs names) (out "")) (if (null? xs) out (loop (cdr xs) (string-append out "/" (car xs)))))))
(define (sbx-nodes root names)          ; the nodes themselves, not what lies below them
  (if root (sbx-any-of (sbx-map (lambda (parts) (literal (sbx-join (append parts names)))) root)) #f))
(define (sbx-trees root names)
  (if root (sbx-any-of (sbx-map (lambda (parts) (sbx-tree-of (sbx-join (append parts names)))) root)) #f))

; ---- trees ----

(define (sbx-key node) (if (pair? (car node)) (car (car node)) (car node)))
(define (sbx-name node) (if (pair? (car node)) (cdr (car node)) (car node)))
(define (sbx-named s)
  (if sbx-fold (let ((key (sbx-lower s))) (if (string=? key s) s (cons key s))) s))
(define (sbx-max a b) (if (< a b) b a))
(define (sbx-info node)                 ; () or (read-number write-number mark ...)
  (let ((info (car (cdr node))))
    (if (symbol? info)
        (sbx-kind info sbx-kinds)
        (if (and (pair? info) (symbol? (car info)))
            (append (sbx-kind (car info) sbx-kinds) (cdr info))
            info))))
(define (sbx-kind name kinds) (if (eq? name (car (car kinds))) (cdr (car kinds)) (sbx-kind name (cdr kinds))))
(define (sbx-merge-info a b)
  (if (null? a)
      b
      (if (null? b)
          a
          (cons (sbx-max (car a) (car b))
                (cons (sbx-max (car (cdr a)) (car (cdr b))) (append (cdr (cdr a)) (cdr (cdr b))))))))
(define (sbx-merge a b)
  (cons (car a)
        (cons (sbx-merge-info (sbx-info a) (sbx-info b)) (sbx-merge-all (cdr (cdr a)) (cdr (cdr b))))))
(define (sbx-merge-all xs ys)
  (if (null? xs)
      ys
      (if (null? ys) xs (sbx-merge-all (sbx-merge-one xs (car ys) (sbx-key (car ys))) (cdr ys)))))
(define (sbx-merge-one xs y key)
  (let loop ((rest xs) (before '()))
    (if (null? rest)
        (cons y xs)
        (if (string=? (sbx-key (car rest)) key)
            (sbx-onto before (cons (sbx-merge (car rest) y) (cdr rest)))
            (loop (cdr rest) (cons (car rest) before))))))
(define (sbx-onto before rest) (if (null? before) rest (sbx-onto (cdr before) (cons (car before) rest))))
(define (sbx-chain name parts node)
  (if (null? parts)
      (cons name (cdr node))
      (list name '() (sbx-chain (sbx-named (car parts)) (cdr parts) node))))
(define (sbx-graft tree root node)      ; the tree with a parameter's layers hung where the parameter is
  (if (not root)
      tree
      (let loop ((tree tree) (root root))
        (if (null? root) tree (loop (sbx-merge tree (sbx-chain "" (car root) node)) (cdr root))))))

; ---- patterns: a list of (regex . matcher), or any for any number of names ----

(define (sbx-text pattern)
  (if (eq? (car pattern) 'any)
      (if (null? (cdr pattern)) "[^/].*" (string-append "(.*/)?" (sbx-text (cdr pattern))))
      (if (or (null? (cdr pattern)) (and (eq? (car (cdr pattern)) 'any) (null? (cdr (cdr pattern)))))
          (car (car pattern))
          (string-append (car (car pattern)) "/" (sbx-text (cdr pattern))))))
(define (sbx-isle-text pattern)         ; where what a pattern allows begins
  (if (and (eq? (car pattern) 'any) (null? (cdr pattern))) "[^/][^/]*" (sbx-text pattern)))
(define (sbx-texts patterns)            ; alternatives, none of them long
  (let loop ((xs patterns) (text "") (out '()))
    (if (null? xs)
        (if (string=? text "") out (cons text out))
        (let ((next (sbx-text (car xs))))
          (if (string=? text "")
              (loop (cdr xs) next out)
              (if (> (+ (string-length text) (string-length next)) 400)
                  (loop (cdr xs) next (cons text out))
                  (loop (cdr xs) (string-append text "|" next) out)))))))
(define (sbx-regexes head texts tail)
  (sbx-any-of (sbx-map (lambda (text) (regex (string-append head "(" text ")" tail))) texts)))
; (read-score write-score anchored patterns exceptions texts pin-texts stay-texts exception-texts last-names
;  states heads): heads are the matchers that a name must meet to change the first states, or #f
(define (sbx-group read write anchored patterns exceptions lasts pins stays heads)
  (list read write anchored patterns exceptions (sbx-texts patterns) (sbx-texts pins) (sbx-texts stays)
        (sbx-texts exceptions) lasts (sbx-close-all patterns) heads))
(define (sbx-idle? group states key)    ; a name that no pattern of a group begins with changes nothing
  (and (sbx-nth 11 group) (eq? states (sbx-nth 10 group)) (not (sbx-meets? (sbx-nth 11 group) key))))
(define (sbx-meets? matchers key)
  (if (null? matchers) #f (or (sbx-matches? (car matchers) key) (sbx-meets? (cdr matchers) key))))
(define (sbx-spared head group)         ; what an exception leaves alone
  (sbx-regexes head (sbx-nth 8 group) "(/.*)?$"))
(define (sbx-kept head group)           ; an exception below a match spares nothing
  (sbx-any-of
    (sbx-map (lambda (last) (sbx-regexes head (sbx-nth 5 group) (string-append "/(.*/)?" last "(/.*)?$")))
             (sbx-nth 9 group))))
(define (sbx-close pattern out)
  (if (or (null? pattern) (not (eq? (car pattern) 'any)))
      (cons pattern out)
      (sbx-close (cdr pattern) (cons pattern out))))
(define (sbx-close-all patterns)
  (let loop ((xs patterns) (out '())) (if (null? xs) out (loop (cdr xs) (sbx-close (car xs) out)))))
(define (sbx-step states key)
  (let loop ((xs states) (out '()))
    (if (null? xs)
        out
        (loop (cdr xs)
              (if (null? (car xs))
                  out
                  (if (eq? (car (car xs)) 'any)
                      (sbx-close (car xs) out)
                      (if (sbx-matches? (cdr (car (car xs))) key) (sbx-close (cdr (car xs)) out) out)))))))
(define (sbx-accepts? states)
  (if (null? states) #f (if (null? (car states)) #t (sbx-accepts? (cdr states)))))
(define (sbx-matches? matcher key)
  (if (string? matcher) (string=? matcher key) (sbx-fits? matcher (sbx-points key))))
(define (sbx-fits? atoms points)
  (if (null? atoms)
      (null? points)
      (if (eq? (car atoms) 'any)
          (or (sbx-fits? (cdr atoms) points) (and (pair? points) (sbx-fits? atoms (cdr points))))
          (and (pair? points)
               (sbx-point? (car atoms) (car points))
               (sbx-fits? (cdr atoms) (cdr points))))))
(define (sbx-point? atom point)
  (if (pair? atom)
      (if (eq? (car atom) 'in) (sbx-within? (cdr atom) point) (not (sbx-within? (cdr atom) point)))
      (or (eq? atom 'one) (= atom point))))
(define (sbx-within? spans point)
  (if (null? spans)
      #f
      (or (and (not (< point (car spans))) (not (> point (car (cdr spans)))))
          (sbx-within? (cdr (cdr spans)) point))))

; ---- the walk: what one stack allows, for reading or for writing ----

(define sbx-writing #f)
(define sbx-sites '())                  ; where access changes: a list of paths for each level
(define sbx-grants '())                 ; patterns that allow
(define sbx-denials '())                ; patterns that deny
(define sbx-isles '())                  ; matches of patterns that allow writing
(define sbx-tops '())                   ; subtrees whose patterns are looked at afresh
(define sbx-afresh '())                 ; (region allowed running head grants denials) for each layer in them
(define sbx-seen '())                   ; nodes that may be looked at, not listed
(define sbx-git-files '())              ; .git where it is a file or a link
(define sbx-git-open '())               ; .git that a layer opens
(define sbx-pins '())                   ; paths that are neither made nor removed
(define sbx-pin-filters '())            ; the same, as filters
(define sbx-stays '())                  ; directories that are not removed

(define (sbx-tree-of path) (require-any (literal path) (subpath path)))
(define (sbx-trees-of paths)
  (let loop ((xs paths) (out '()))
    (if (null? xs) (sbx-any-of out) (loop (cdr xs) (cons (literal (car xs)) (cons (subpath (car xs)) out))))))
(define (sbx-score info) (if (null? info) -1 (if sbx-writing (car (cdr info)) (car info))))
(define (sbx-grants? score) (if sbx-writing (= (remainder score 3) 0) (< (remainder score 3) 2)))
(define sbx-head-path #f)
(define sbx-head-text "")
(define (sbx-head path)                 ; the beginning of a regular expression for what lies below a path
  (if (not (eq? path sbx-head-path))
      (begin
        (set! sbx-head-path path)
        (set! sbx-head-text (if (string=? path "/") "^/" (string-append "^" (sbx-quote path) "/")))))
  sbx-head-text)
(define sbx-directory (vnode-type DIRECTORY))

; running: a list of (score group states exception-states)
(define (sbx-advance running key)
  (let loop ((xs running) (out '()))
    (if (null? xs)
        out
        (let ((item (car xs)))
          (let ((states (if (sbx-idle? (car (cdr item)) (sbx-nth 2 item) key)
                            (sbx-nth 2 item)
                            (sbx-step (sbx-nth 2 item) key)))
                (spared (sbx-step (sbx-nth 3 item) key)))
            (loop (cdr xs)
                  (if (or (null? states) (sbx-accepts? spared))
                      out
                      (cons (list (car item) (car (cdr item)) states spared) out))))))))
(define (sbx-start group path)
  (let ((score (if sbx-writing (car (cdr group)) (car group))) (head (sbx-head path)))
    (let ((filter (sbx-regexes head (sbx-nth 5 group) "(/.*)?$")) (spared (sbx-spared head group)))
      (if (sbx-grants? score)
          (begin
            (set! sbx-grants (cons (sbx-but filter spared) sbx-grants))
            (if sbx-writing
                (set! sbx-isles
                      (cons (sbx-regexes head (sbx-map sbx-isle-text (sbx-nth 3 group)) "$") sbx-isles))
                (sbx-note-prefixes group head)))
          (begin
            (set! sbx-denials (cons (sbx-but filter (sbx-but spared (if spared (sbx-kept head group) #f))) sbx-denials))
            (if sbx-writing (sbx-note-pins group head)))))
    (list score group (sbx-nth 10 group) (sbx-close-all (sbx-nth 4 group)))))
(define (sbx-note-pins group head)
  (let ((pins (sbx-regexes head (sbx-nth 6 group) "$")) (stays (sbx-stay-filter group head)))
    (if pins (set! sbx-pin-filters (cons pins sbx-pin-filters)))
    (if stays (set! sbx-stays (cons (require-all sbx-directory stays) sbx-stays)))))
(define (sbx-note-prefixes group head)
  (let ((ways (sbx-any (sbx-regexes head (sbx-nth 6 group) "$") (sbx-stay-filter group head))))
    (if ways (set! sbx-seen (cons (require-all sbx-directory ways) sbx-seen)))))
(define (sbx-stay-filter group head) (sbx-regexes head (sbx-nth 7 group) "(/.*)?$"))

(define (sbx-walk node path allowed level refused running granted denied afresh)
  (let ((info (sbx-info node)))
    (let ((marks (if (null? info) '() (cdr (cdr info)))) (score (sbx-score info)) (contains-deny #f) (contains-allow #f))
      (sbx-each
        (lambda (mark)
          (if (number? mark)
              (let ((group (sbx-nth mark sbx-groups)))
                (if (not (< (if sbx-writing (car (cdr group)) (car group)) 0))
                    (let ((item (sbx-start group path)))
                      (set! running (cons item running))
                      (if (sbx-grants? (car item))
                          (set! contains-allow #t)
                          (if (sbx-nth 2 group) (set! contains-deny #t))))))))
        marks)
      (sbx-each
        (lambda (item)
          (if (sbx-accepts? (sbx-nth 2 item))
              (begin
                (set! score (sbx-max score (car item)))
                (if (sbx-grants? (car item)) (set! granted #t) (set! denied #t)))))
        running)
      (if (and (not sbx-writing) (not refused) (sbx-has? 'base marks))
          (set! score (sbx-max score 4)))
      (let ((layered (not (< score 0))))
        (let ((now (if layered (sbx-grants? score) allowed)))
          (let ((changed (not (eq? now allowed)))
                (fresh (or afresh (and layered (if now denied granted))))
                (refused (if layered (and (not now) (> score 5)) refused))
                (holes '())
                (grants-before sbx-grants)
                (denials-before sbx-denials))
            (let ((level (if changed (+ level 1) level)))
              (if changed (set! sbx-sites (sbx-put path level sbx-sites)))
              (sbx-each
                (lambda (child)
                  (let ((found (sbx-walk child
                                         (string-append (if (string=? path "/") "" path) "/" (sbx-name child))
                                         now level refused (sbx-advance running (sbx-key child))
                                         granted denied fresh)))
                    (if (car found) (set! contains-deny #t))
                    (if (car (cdr found)) (set! contains-allow #t))
                    (set! holes (append (cdr (cdr found)) holes))))
                (cdr (cdr node)))
              (if (and fresh (not afresh)) (set! sbx-tops (cons (sbx-tree-of path) sbx-tops)))
              (if (and fresh layered)
                  (set! sbx-afresh
                        (cons (list (sbx-but (sbx-tree-of path) (sbx-trees-of holes)) now running (sbx-head path)
                                    (sbx-any-of (sbx-since grants-before sbx-grants))
                                    (sbx-any-of (sbx-since denials-before sbx-denials)))
                              sbx-afresh)))
              (if sbx-writing
                  (sbx-note-write node info path now changed contains-deny marks)
                  (sbx-note-read path now refused contains-allow marks))
              (cons (or contains-deny (and layered (not now)) (sbx-has? 'pin marks))
                    (cons (or contains-allow (and layered now)) (if layered (list path) holes))))))))))
(define (sbx-since before now)          ; what a list gained at its front
  (let loop ((xs now) (out '())) (if (eq? xs before) out (loop (cdr xs) (cons (car xs) out)))))
(define (sbx-note-write node info path now changed contains-deny marks)
  (if (and now (or changed contains-deny (sbx-has? 'pin marks)))
      (set! sbx-pins (cons path sbx-pins)))
  (if (and now (pair? info) (> (sbx-score info) 11) (string=? (sbx-key node) ".git"))
      (set! sbx-git-open (cons (literal path) sbx-git-open)))
  (if (sbx-has? 'git marks)
      (set! sbx-git-files
            (cons (require-all (regex (string-append (sbx-head path) "(.*/)?" sbx-git "$"))
                               (require-any (vnode-type REGULAR-FILE) (vnode-type SYMLINK)))
                  sbx-git-files))))
(define (sbx-note-read path now refused contains-allow marks)
  (if (not now)
      (begin
        (if (or contains-allow (and (sbx-has? 'stat marks) (not refused)))
            (set! sbx-seen (cons (literal path) sbx-seen)))
        (if (and (sbx-has? 'stat-below marks) (not refused)) (set! sbx-seen (cons (subpath path) sbx-seen)))
        (if (and (sbx-has? 'node marks) (not refused)) (set! sbx-grants (cons (literal path) sbx-grants))))))

(define (sbx-put path level sites)
  (if (= level 1)
      (if (null? sites) (list (list path)) (cons (cons path (car sites)) (cdr sites)))
      (cons (if (null? sites) '() (car sites)) (sbx-put path (- level 1) (if (null? sites) '() (cdr sites))))))
(define (sbx-nest sites) (if (null? sites) #f (sbx-but (sbx-trees-of (car sites)) (sbx-nest (cdr sites)))))
(define (sbx-rest-of running grants head text tail)   ; the patterns that begin or go on below a layer
  (let loop ((xs running) (out '()))
    (if (null? xs)
        (sbx-any-of out)
        (if (and (eq? (sbx-grants? (car (car xs))) grants) (or (not grants) (null? (sbx-nth 3 (car xs)))))
            (loop (cdr xs) (sbx-tails (sbx-nth 2 (car xs)) head text tail out))
            (loop (cdr xs) out)))))
(define (sbx-tails states head text tail out)
  (if (null? states)
      out
      (sbx-tails (cdr states) head text tail
                 (if (null? (car states))
                     out
                     (cons (regex (string-append head "(" (text (car states)) ")" tail)) out)))))
(define (sbx-allowed writing base tree extra)  ; the filter of what a stack allows, or #f
  (set! sbx-writing writing)
  (set! sbx-sites '())
  (set! sbx-grants (if extra (list extra) '()))
  (set! sbx-denials '())
  (set! sbx-isles '())
  (set! sbx-tops '())
  (set! sbx-afresh '())
  (set! sbx-git-files '())
  (set! sbx-git-open '())
  (sbx-walk tree "/" base 0 #f '() #f #f #f)
  (let ((places (if base (sbx-but (subpath "/") (sbx-nest sbx-sites)) (sbx-nest sbx-sites)))
        (denials (sbx-any-of sbx-denials)))
    (set! sbx-sites '())
    (if (pair? sbx-isles)
        (set! sbx-pin-filters (cons (sbx-but (sbx-any-of sbx-isles) places) sbx-pin-filters)))
    (let loop ((xs sbx-afresh)
               (out (sbx-but (sbx-but (sbx-any places (sbx-any-of sbx-grants)) denials) (sbx-any-of sbx-tops))))
      (if (null? xs)
          (sbx-but out (sbx-but (sbx-any-of sbx-git-files) (sbx-any-of sbx-git-open)))
          (let ((region (car (car xs))) (now (sbx-nth 1 (car xs))) (running (sbx-nth 2 (car xs))) (head (sbx-nth 3 (car xs))))
            (if (and writing (not now))
                (let ((isles (sbx-all region (sbx-rest-of running #t head sbx-isle-text "$"))))
                  (if isles (set! sbx-pin-filters (cons isles sbx-pin-filters)))))
            (loop (cdr xs)
                  (sbx-any out
                           (sbx-but (if now
                                        region
                                        (sbx-all region
                                                 (sbx-any (sbx-rest-of running #t head sbx-text "(/.*)?$")
                                                          (sbx-nth 4 (car xs)))))
                                    (sbx-any (sbx-rest-of running #f head sbx-text "(/.*)?$")
                                             (sbx-nth 5 (car xs)))))))))))
(define (sbx-literals paths) (sbx-any-of (sbx-map (lambda (path) (literal path)) paths)))
