# -- what both scripts share -----------------------------------------------------------------------------

$Access = [System.Security.AccessControl.AccessControlSections]::Access
$Denied = [System.Security.AccessControl.AceQualifier]::AccessDenied
$Separator = [char] 92

function Get-LocalPath([string] $Text) {
    # Returns a full path on a local drive: no \\?\ in front, no separator at the end but behind a bare drive.
    $path = $Text.Replace('/', '\')
    if ($path -match '^\\\\\?\\[A-Za-z]:\\') { $path = $path.Substring(4) }
    if ($path -match '^\\\\') { throw "a share or a device cannot take part in the plan: $path" }
    if ($path -notmatch '^[A-Za-z]:\\') { throw "not an absolute path: $path" }
    $parts = @($path.Substring(3).Split($Separator) | Where-Object { $_.Length -gt 0 })
    foreach ($part in $parts) {
        if ($part -eq '..' -or $part -eq '.') { throw "a path of the plan may not hold dots: $path" }
        if ($part.IndexOf([char] 58) -ge 0) { throw "a stream is not a place: $path" }
    }
    $drive = New-Object System.IO.DriveInfo ($path.Substring(0, 1))
    if ($drive.DriveType -eq [System.IO.DriveType]::Network) { throw "a mapped share cannot take part in the plan: $path" }
    return $path.Substring(0, 1).ToUpperInvariant() + ':\' + [string]::Join('\', [string[]] $parts)
}

function Get-Kind([string] $Path) {
    # Returns directory, file or absent; a link, and what cannot be looked at, is an error and never absent.
    try { $attributes = [System.IO.File]::GetAttributes($Path) }
    catch [System.IO.FileNotFoundException] { return 'absent' }
    catch [System.IO.DirectoryNotFoundException] { return 'absent' }
    if ($attributes -band [System.IO.FileAttributes]::ReparsePoint) { throw "a link stands at ${Path}: give the plan the place it leads to" }
    if ($attributes -band [System.IO.FileAttributes]::Directory) { return 'directory' }
    return 'file'
}

function Get-Above([string] $Path) {
    # Returns the directories above a path, the drive left out, topmost first.
    $at = $Path.IndexOf($Separator, 3)
    while ($at -ge 0) {
        $Path.Substring(0, $at)
        $at = $Path.IndexOf($Separator, $at + 1)
    }
}

function Assert-NoLink([string] $Path) {
    # A link on the way would carry the entry to another place than the plan names.
    foreach ($above in @(Get-Above $Path)) { if ((Get-Kind $above) -eq 'absent') { return } }
}

function Get-FileItem([string] $Path, [string] $Kind) {
    if ($Kind -eq 'directory') { return New-Object System.IO.DirectoryInfo $Path }
    return New-Object System.IO.FileInfo $Path
}

function Get-Security($Item) {
    if ($PSVersionTable.PSEdition -eq 'Core') { return [System.IO.FileSystemAclExtensions]::GetAccessControl($Item, $Access) }
    return $Item.GetAccessControl($Access)
}

function Set-Security($Item, $Security) {
    if ($PSVersionTable.PSEdition -eq 'Core') { [System.IO.FileSystemAclExtensions]::SetAccessControl($Item, $Security) }
    else { $Item.SetAccessControl($Security) }
}

function Get-Raw($Security) {
    $raw = New-Object System.Security.AccessControl.RawSecurityDescriptor ($Security.GetSecurityDescriptorSddlForm($Access))
    if ($null -eq $raw.DiscretionaryAcl) { throw 'an object without an access control list grants everything: repair it first' }
    return $raw
}

function Read-Ace([string] $Text) {
    return (New-Object System.Security.AccessControl.RawSecurityDescriptor ('D:' + $Text)).DiscretionaryAcl[0]
}

function Test-SameAce($One, $Other) {
    return ($One -is [System.Security.AccessControl.CommonAce]) -and
        ($One.AceQualifier -eq $Other.AceQualifier) -and ($One.AceFlags -eq $Other.AceFlags) -and
        ($One.AccessMask -eq $Other.AccessMask) -and $One.SecurityIdentifier.Equals($Other.SecurityIdentifier)
}

function Find-Ace($Raw, $Ace) {
    # Returns the index of exactly this entry, or -1.
    $acl = $Raw.DiscretionaryAcl
    for ($at = 0; $at -lt $acl.Count; $at++) { if (Test-SameAce $acl[$at] $Ace) { return $at } }
    return -1
}

function Get-Rank($Ace) {
    # Canonical order: explicit deny, explicit allow, then what is inherited, as it is.
    if ($Ace.AceFlags -band [System.Security.AccessControl.AceFlags]::Inherited) { return 2 }
    if (($Ace -is [System.Security.AccessControl.QualifiedAce]) -and ($Ace.AceQualifier -eq $Denied)) { return 0 }
    return 1
}

function Assert-Canonical($Raw, [string] $Path) {
    $last = 0
    for ($at = 0; $at -lt $Raw.DiscretionaryAcl.Count; $at++) {
        $rank = Get-Rank $Raw.DiscretionaryAcl[$at]
        if ($rank -lt $last) { throw "the entries of $Path are not in canonical order: repair them first" }
        $last = $rank
    }
}

function Save-Raw($Item, $Security, $Raw) {
    $Security.SetSecurityDescriptorSddlForm($Raw.GetSddlForm($Access), $Access)
    Set-Security $Item $Security
}

$JournalStream = $null

function Open-Journal([string] $Path) {
    # Nobody else may write to it meanwhile.
    return New-Object System.IO.FileStream ($Path, [System.IO.FileMode]::OpenOrCreate,
        [System.IO.FileAccess]::ReadWrite, [System.IO.FileShare]::Read)
}

function Write-Journal([hashtable] $Record) {
    # One JSON object a line, on the disk before the change that it announces.
    $line = ($Record | ConvertTo-Json -Compress -Depth 4) + "`n"
    $bytes = (New-Object System.Text.UTF8Encoding $false).GetBytes($line)
    [void] $JournalStream.Seek(0, [System.IO.SeekOrigin]::End)
    $JournalStream.Write($bytes, 0, $bytes.Length)
    $JournalStream.Flush($true)
}
